"""Datasets: conversations of any source as Parquet or JSON lines, for training and analysis."""

SCHEMA_VERSION = "open-token/dataset/1"
"""The version of the tables; it changes with every change of a column."""

TABLE_PROFILES = ("events", "hf", "scout")
LINE_PROFILES = ("docent", "sharegpt", "openai-finetune")
PROFILES = (*TABLE_PROFILES, *LINE_PROFILES)
"""What a dataset can be written as; the first is the default."""
