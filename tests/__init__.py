"""Tests of jupyter-placement."""
