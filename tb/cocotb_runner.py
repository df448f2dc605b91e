"""cocotb's Verilator runner with the package's own commands.

The methods that it overrides have private names. They are those of cocotb 2.1, and pyproject.toml
admits 2.1 alone: 2.0 has no variables of builds apart from those of tests, and the next minor may
name any of them anew.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from typing import IO

import cocotb_tools.runner

from ..system import children
from .environment import without_cocotb
from .toolchain import environment, make_variables, verilator_command, wave_format


class Verilator(cocotb_tools.runner.Verilator):
    """cocotb's Verilator runner without ``--public-flat-rw`` (it costs four fifths of the speed)
    and with the wheel's make flags.
    """

    jobs = 2
    own_headers = False
    traced = False
    objects: Sequence[str] = ()

    def _simulator_in_path_build_only(self) -> None:
        self.executable = verilator_command()

    def _build_command(self):
        verilate, make = super()._build_command()
        verilate = [arg for arg in verilate if arg != "--public-flat-rw"]
        if self.waves and wave_format() == "fst":
            verilate[verilate.index("--trace")] = "--trace-fst"
        make[make.index("-j") + 1] = str(self.jobs)
        # Verilator's own part is the same in every build; Verilating would delete it, so it comes
        # after.
        return [
            verilate,
            *([["cp", *self.objects, str(self.build_dir)]] if self.objects else []),
            make,
        ]

    def _set_env_build(self) -> None:
        super()._set_env_build()
        own = without_cocotb(self.env)
        self.env = environment(make_variables(), not self.own_headers, own)
        self.waves = self.traced  # which WAVES in the environment has set

    def _execute_cmds(
        self, cmds: Sequence[Sequence[str]], cwd: str | os.PathLike, stdout: IO | None = None
    ) -> None:
        for command in cmds:
            if code := children.run(
                command,
                cwd=cwd,
                env=self.env,
                stdout=stdout,
                stderr=subprocess.STDOUT if stdout else None,
            ).returncode:
                raise RuntimeError(f"{command[0]} ended with {code}")

    def _waves_file(self) -> str:
        return f"dump.{wave_format()}"
