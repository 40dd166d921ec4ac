"""`eventjobs demo`: real processes, real files, a killed worker and a frozen one, and an audit of what the log says.

- plan: which files, and which of them make trouble
- handlers: the worker the demo runs: hash and compress a file
- processes: starting, freezing and killing the coordinator and the workers
- show: what happens, act by act
- ledger: the events of the log, folded by rules of the demo's own
- audit: what must hold at the end
- report: what happened, as a table
"""
