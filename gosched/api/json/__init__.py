"""The JSON of HTTP and of `goschedctl -o json`: one document for each record that users see.

Invariant: keys keep their meaning and their order; new ones may come. tests/api/documents.json has them as they are.
"""
