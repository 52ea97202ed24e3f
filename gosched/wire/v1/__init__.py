"""Generated from proto/ by proto/generate.py."""
