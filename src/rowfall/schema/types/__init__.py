"""Types of columns: how values are read strictly, nested values and NULL, types that take more."""
