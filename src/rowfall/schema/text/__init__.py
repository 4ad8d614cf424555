"""Lines of text files: how they are written, what headers name, where records end.

What the values mean is not decided here: that is types.
"""
