"""Adapters to other libraries. This is the only package that imports them, and it does so when they are needed."""
