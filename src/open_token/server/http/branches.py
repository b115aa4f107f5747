"""Routes of branches."""

from fastapi import APIRouter

router = APIRouter()
