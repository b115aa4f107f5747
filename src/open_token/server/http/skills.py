"""Routes of skills."""

from fastapi import APIRouter

router = APIRouter()
