"""Runs made elsewhere: read tables and logs of other tools, and compare them as a study."""

from gatewise.studies.records.comparing import compare_records as compare_records
