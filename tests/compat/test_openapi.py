# SPDX-License-Identifier: Apache-2.0
"""The description of the API is one that other programs can read."""
import pytest
import yaml

from conftest import ROOT

validator = pytest.importorskip("openapi_spec_validator", reason="needs the packages of tests/compat/requirements.txt")


@pytest.mark.parametrize("path", sorted((ROOT / "specs").glob("*.yml")), ids=lambda p: p.name)
def test_the_document_is_valid_openapi(path):
    validator.validate(yaml.safe_load(path.read_text()), cls=validator.OpenAPIV31SpecValidator)
