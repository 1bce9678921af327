"""The only importer of foreign APIs. Nothing in here is imported before it is needed."""
