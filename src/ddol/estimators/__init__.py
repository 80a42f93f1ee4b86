"""Estimators for scikit-learn."""

from ddol.estimators.classifier import DDOLClassifier
from ddol.estimators.majority import WeightedMajorityClassifier
from ddol.estimators.regressor import DDOLRegressor

__all__ = ["DDOLClassifier", "DDOLRegressor", "WeightedMajorityClassifier"]
