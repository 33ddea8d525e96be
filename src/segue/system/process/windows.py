"""What Windows offers in place of groups, sessions and /proc: job objects, and when a process was created."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess

if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _QUERY, _SYNCHRONIZE = 0x1000, 0x100000
    _RUNNING = 258  # WAIT_TIMEOUT
    _EXTENDED_LIMITS, _KILL_ON_CLOSE = 9, 0x2000

    class _Basic(ctypes.Structure):
        _fields_ = [
            ("PerProcessUserTimeLimit", ctypes.c_int64),
            ("PerJobUserTimeLimit", ctypes.c_int64),
            ("LimitFlags", wintypes.DWORD),
            ("MinimumWorkingSetSize", ctypes.c_size_t),
            ("MaximumWorkingSetSize", ctypes.c_size_t),
            ("ActiveProcessLimit", wintypes.DWORD),
            ("Affinity", ctypes.c_size_t),
            ("PriorityClass", wintypes.DWORD),
            ("SchedulingClass", wintypes.DWORD),
        ]

    class _Extended(ctypes.Structure):
        _fields_ = [
            ("Basic", _Basic),
            ("IoCounters", ctypes.c_uint64 * 6),
            ("ProcessMemoryLimit", ctypes.c_size_t),
            ("JobMemoryLimit", ctypes.c_size_t),
            ("PeakProcessMemoryUsed", ctypes.c_size_t),
            ("PeakJobMemoryUsed", ctypes.c_size_t),
        ]

    _kernel = ctypes.WinDLL("kernel32")
    _kernel.OpenProcess.restype = wintypes.HANDLE
    _kernel.OpenProcess.argtypes = [wintypes.DWORD, wintypes.BOOL, wintypes.DWORD]
    _kernel.WaitForSingleObject.argtypes = [wintypes.HANDLE, wintypes.DWORD]
    _kernel.GetProcessTimes.argtypes = [wintypes.HANDLE] + [ctypes.POINTER(wintypes.FILETIME)] * 4
    _kernel.CloseHandle.argtypes = [wintypes.HANDLE]
    _kernel.CreateJobObjectW.restype = wintypes.HANDLE
    _kernel.CreateJobObjectW.argtypes = [wintypes.LPVOID, wintypes.LPCWSTR]
    _kernel.SetInformationJobObject.argtypes = [
        *(wintypes.HANDLE, ctypes.c_int, wintypes.LPVOID, wintypes.DWORD)
    ]
    _kernel.AssignProcessToJobObject.argtypes = [wintypes.HANDLE, wintypes.HANDLE]
    _kernel.TerminateJobObject.argtypes = [wintypes.HANDLE, wintypes.UINT]

    def creation_time(pid: int) -> str | None:
        """When the process was created; None when it has ended or cannot be asked."""
        handle = _kernel.OpenProcess(_QUERY | _SYNCHRONIZE, False, pid)
        if not handle:
            return None
        try:
            times = [wintypes.FILETIME() for _ in range(4)]
            told = _kernel.GetProcessTimes(handle, *map(ctypes.byref, times))
            if not told or _kernel.WaitForSingleObject(handle, 0) != _RUNNING:
                return None
            return str(times[0].dwHighDateTime << 32 | times[0].dwLowDateTime)
        finally:
            _kernel.CloseHandle(handle)

    class JobObject:
        """What Windows puts a process and all it starts into; closing it, also by a crash, ends them all."""

        def __init__(self, process: subprocess.Popen[bytes]) -> None:
            self._handle: int | None = _kernel.CreateJobObjectW(None, None)
            limits = _Extended()
            limits.Basic.LimitFlags = _KILL_ON_CLOSE
            self.holds = bool(
                self._handle
                and _kernel.SetInformationJobObject(
                    self._handle, _EXTENDED_LIMITS, ctypes.byref(limits), ctypes.sizeof(limits)
                )
                and _kernel.AssignProcessToJobObject(self._handle, int(process._handle))  # type: ignore[attr-defined]
            )

        def kill(self) -> None:
            """Kill everything inside, also what outlived its parent."""
            _kernel.TerminateJobObject(self._handle, 1)

        def __del__(self) -> None:
            if self._handle:
                _kernel.CloseHandle(self._handle)
