"""Routes of keys."""

from fastapi import APIRouter

router = APIRouter()
