"""Results of other benchmark tools, read into run folders: one module per tool."""
