"""Recognize names of people in text."""
