"""Routes of transfer."""

from fastapi import APIRouter

router = APIRouter()
