"""What readers of the posenc book use beside the package.

`workbook` judges exercises, `lab` trains small models, `runs` measures many of them, `draw` has what the figures share.
"""
