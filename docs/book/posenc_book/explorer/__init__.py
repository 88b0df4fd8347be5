"""What the explorer is given by its page: numbers of the package to be judged by, and settings of published models."""
