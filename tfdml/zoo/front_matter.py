"""The metadata of a card that Hugging Face reads, at the beginning of `README.md`."""

import json
import re

_TASK = "image-feature-extraction"
_TAGS = ("tfdml", "metric-learning", "image-retrieval")
# Licenses that Hugging Face and SPDX know: https://huggingface.co/docs/hub/repositories-licenses.
_LICENSES = """
    afl-3.0 agpl-3.0 apache-2.0 artistic-2.0 bsd-2-clause bsd-3-clause bsl-1.0 cc-by-2.0 cc-by-3.0 cc-by-4.0
    cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0 cc-by-nc-sa-3.0
    cc-by-nc-sa-4.0 cc-by-nd-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc0-1.0 cdla-permissive-1.0 cdla-permissive-2.0
    cdla-sharing-1.0 ecl-2.0 epl-1.0 epl-2.0 eupl-1.1 gpl-2.0 gpl-3.0 isc lgpl-2.1 lgpl-3.0 mit mpl-2.0 ms-pl ncsa
    ofl-1.1 osl-3.0 postgresql unlicense wtfpl zlib
"""


def front_matter(name: str, license: str, protocol: str, metrics: dict[str, float]) -> str:
    """Lines of YAML between two lines of `---`: license, library, tags, task, and the metrics as a `model-index`.

    The first sentence of `license` is an SPDX identifier; others become `other`, with a name. Metrics are fractions,
    written with five digits. Source: https://github.com/huggingface/hub-docs/blob/main/modelcard.md.
    """
    tags = "\n".join(f"- {tag}" for tag in _TAGS)
    values = "\n".join(f"    - type: {json.dumps(name)}\n      value: {value:.5f}" for name, value in metrics.items())
    return f"""---
{_license_lines(license)}
library_name: keras
pipeline_tag: {_TASK}
tags:
{tags}
model-index:
- name: {json.dumps(name)}
  results:
  - task:
      type: {_TASK}
    dataset:
      type: {json.dumps(protocol.partition("/")[0])}
      name: {json.dumps(protocol)}
    metrics:
{values}
---
"""


def _license_lines(license):
    """The license as Hugging Face names it: the first sentence of a text, in small letters."""
    identifier = re.split(r"[.,;:](?:\s|$)", license.strip())[0].lower()
    identifier = identifier.removesuffix("-only").removesuffix("-or-later")
    if identifier in _LICENSES.split():
        return f"license: {identifier}"
    name = re.sub(r"[^a-z0-9.]+", "-", identifier).strip("-") or "unnamed"
    return f"license: other\nlicense_name: {json.dumps(name)}"
