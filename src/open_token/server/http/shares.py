"""Routes of shares."""

from fastapi import APIRouter

router = APIRouter()
