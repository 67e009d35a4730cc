"""Compile programs here into a kit; check and time them on a GPU machine without a compiler.

| module | concept |
| --- | --- |
| ``cases`` | the programs and baselines, with tolerances and time limits |
| ``sources`` | the ONNX models, with weights from seeds |
| ``seeds``, ``store`` | arrays as seeds and scales, or as files that are stored once |
| ``programs`` | compiled programs, and the weights that programs share |
| ``pack`` | compiles all cases into a folder, here |
| ``run``, ``child`` | every case in a separate process, there |
| ``manifest`` | the table of contents of a kit |
| ``measure``, ``probe``, ``baselines``, ``torch_graph`` | the kinds of cases |
| ``results``, ``report`` | a line for each case, and tables of them |
"""
