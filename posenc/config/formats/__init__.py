"""Other programs' configurations, in the words of transformers."""
