"""Routes of tokens."""

from fastapi import APIRouter

router = APIRouter()
