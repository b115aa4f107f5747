"""Routes of memories."""

from fastapi import APIRouter

router = APIRouter()
