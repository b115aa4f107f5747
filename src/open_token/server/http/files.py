"""Routes of files."""

from fastapi import APIRouter

router = APIRouter()
