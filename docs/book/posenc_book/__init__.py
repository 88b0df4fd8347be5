"""What readers of the posenc book use beside the package.

`workbook` judges exercises, `lab` trains small models, `draw` has what the figures share.
"""
