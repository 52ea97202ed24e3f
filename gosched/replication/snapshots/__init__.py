"""The state as a file: written, sent, received."""
