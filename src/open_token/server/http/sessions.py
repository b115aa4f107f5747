"""Routes of sessions."""

from fastapi import APIRouter

router = APIRouter()
