# SPDX-License-Identifier: Apache-2.0
"""Metrics as Prometheus' own client reads them (test/requirements.txt). The wheel stays packed."""

import glob
import importlib
import os
import sys
import urllib.request

from harness import CACHE

VERSION = "0.21.1"


class MissingWheel(Exception):
    pass


def _parser():
    wheels = glob.glob(os.path.join(CACHE, "wheels", "prometheus_client-%s-*.whl" % VERSION))
    if not wheels:
        raise MissingWheel("prometheus-client %s is not in the cache (make deps)" % VERSION)
    if wheels[0] not in sys.path:
        sys.path.append(wheels[0])
    return importlib.import_module("prometheus_client.parser")


class Metrics:
    """One scrape: samples by name and labels, and families by name."""

    def __init__(self, text):
        self.text = text
        self.families = {}
        self._samples = {}
        for family in _parser().text_string_to_metric_families(text):
            assert family.name not in self.families, "two families %s" % family.name
            self.families[family.name] = family
            for sample in family.samples:
                name = sample.name, tuple(sorted(sample.labels.items()))
                assert name not in self._samples, "twice: %s" % (name,)
                self._samples[name] = sample.value

    def value(self, sample_name, **labels):
        """0 when there is no such sample."""
        return self._samples.get((sample_name, tuple(sorted(labels.items()))), 0)

    def labels(self, sample_name):
        return [dict(labels) for name, labels in self._samples if name == sample_name]

    def quantities(self):
        return set(self.families)


def scrape(port):
    with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % port, timeout=60) as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        return Metrics(answer.read().decode("utf-8"))
