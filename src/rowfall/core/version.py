"""The version of rowfall, read by the build and by everything that prints it."""

__version__ = "0.1.0"
