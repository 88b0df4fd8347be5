"""The same results as the plain files, sooner or in less memory: opt-in, one file each."""
