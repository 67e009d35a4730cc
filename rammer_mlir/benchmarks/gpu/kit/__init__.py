"""Compile programs into a kit (a folder) that a GPU machine without a compiler checks and times.

"Packing" is done on the machine with the compiler, "running" on the machine with the GPU.

| module | concept |
| --- | --- |
| ``cases`` | the programs and baselines, with tolerances and time limits |
| ``sources`` | the ONNX models, with weights from seeds |
| ``seeds``, ``store`` | arrays as seeds and scales, or as files that are stored once |
| ``programs`` | compiled programs, and the weights that programs share |
| ``pack`` | packing: compiles all cases into a folder |
| ``run``, ``child`` | running: executes every case in a separate process |
| ``manifest`` | the table of contents of a kit |
| ``measure``, ``probe``, ``baselines``, ``torch_graph`` | the kinds of cases |
| ``results``, ``report`` | the results, a line of JSON for each case, and tables of the results |
"""
