"""Faults in what is sent, and when, that users of other benchmark tools have met.

Each test names the report that it comes from.
"""

import asyncio
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from engines.dialect import OPENAI_COMPLETIONS  # noqa: F401
from harness.core.errors import UsageError
from harness.core.plan import LoadFlags, parse_load
from harness.core.stages import parse_stages
from harness.core.workload import Load, LoadKind, Workload
from harness.loadgen import pacing
from harness.loadgen.crew import Shares, split
from harness.loadgen.pacing import Due, OpenLoop
from harness.loadgen.wire import Target
from harness.loadgen.worker import WorkerPlan
from workloads.arrivals import due_instants_ns
from workloads.catalog import build_workload, load_spec
