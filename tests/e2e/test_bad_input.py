"""Bad input of every kind: what is said, what stays invisible, what lands all the same."""

from __future__ import annotations

import bz2
import gzip
import http.server
import json
import lzma
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import rowfall as library
from e2e.tools import Done, Shell, csv
from lab.seaweed import Seaweed
