"""Tests of the doctor: small implementations with one fault each ("patients"), beside the sound version.

A folder for each kind of code (rotation, table, bias, attention, model), and one for how code is called; in it a file
for each check. A file lists its patients with the identifiers that must be wrong, no more and no fewer, and with notes
that must be among them: `assert_report` of `assertions.py`. Patients are made of the parts in `blocks.py`; those that
several files change are in the folder's `patients.py`. `corpus` holds code of others.

To add a patient, add a row to the table of the check that should notice it, then list its report:
`python -m dev.doctor_reports tests/doctor/rotation/test_norm.py`. What is inside of posenc.doctor is imported by
`test_findings.py` and `rotation/test_against_config.py` alone.
"""
