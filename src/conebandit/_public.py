"""The public names; ``conebandit`` has them when somebody asks for the first."""

from conebandit import environments
from conebandit._version import __version__
from conebandit.checks import check_environment, check_policy
from conebandit.diagnose.monitor import ShiftMonitor
from conebandit.diagnose.rho import Exponent, Rho, RhoCurve, rho, rho_curve, rho_tree
from conebandit.diagnose.smoothness import PowerLaw, margin, margin_from_log, smoothness, smoothness_from_log
from conebandit.diagnose.snapshot import ShiftAlarm, ShiftSnapshot
from conebandit.environments.base import Environment, World
from conebandit.evaluation.evaluate import evaluate
from conebandit.evaluation.log import Log
from conebandit.evaluation.result import Difference, Evaluation
from conebandit.evaluation.targets import Overlap
from conebandit.experiment.columns import Categorical, Numeric
from conebandit.experiment.declaration import Experiment
from conebandit.experiment.how_many import SampleSize
from conebandit.experiment.learner import Learner
from conebandit.experiment.metrics import Metric
from conebandit.experiment.outlook import Interval, Outlook, RowExplanation
from conebandit.experiment.rules import BoundRule, BurnInRule, CapRule
from conebandit.experiment.segments import Condition, Segment, Segments
from conebandit.experiment.units import Units
from conebandit.geometry.cone import Cone
from conebandit.geometry.contradictions import ContradictionError
from conebandit.geometry.directions import CostWarning
from conebandit.geometry.gap import additive_gap, dominance_distance, gap, hausdorff, log_hausdorff, shortfall
from conebandit.geometry.pareto import pareto_mask
from conebandit.geometry.questions import Question
from conebandit.policies.base import Decision, Decisions, Front, Policy
from conebandit.policies.binned_elimination import BinnedElimination
from conebandit.policies.binned_pareto_ucb import BinnedParetoUCB
from conebandit.policies.compiled import CompiledPolicy
from conebandit.policies.cone_kernel import Beaten, ConeKernel, KernelExplanation
from conebandit.policies.cone_tree import ConeTree
from conebandit.policies.default import default_policy
from conebandit.policies.explanation import Bin, Elimination, Explanation
from conebandit.policies.fourier_sampling import FourierSampling
from conebandit.policies.linear_ucb import LinearParetoUCB
from conebandit.policies.load import load_policy
from conebandit.policies.neighbours import NeighbourParetoUCB
from conebandit.policies.oracle import Oracle, Truth
from conebandit.policies.pareto_ucb import ParetoUCB1
from conebandit.policies.random_arm import RandomArm
from conebandit.policies.scalarised_ucb import ScalarisedUCB
from conebandit.policies.self_tuning import SelfTuning
from conebandit.policies.zooming import ParetoZooming
from conebandit.service.client import Assignment, AsyncClient, Client, ClientError, Receipt
from conebandit.service.edge import Edge
from conebandit.service.past import deploy
from conebandit.simulate import Replay, Run, replay, simulate, simulate_many
from conebandit.studies.shards import learn_shards
from conebandit.studies.study import Study, load_study, run_study
from conebandit.validate.storage import PolicyFileError

__all__ = [
    "Assignment",
    "AsyncClient",
    "Beaten",
    "Bin",
    "BinnedElimination",
    "BinnedParetoUCB",
    "BoundRule",
    "BurnInRule",
    "CapRule",
    "Categorical",
    "Client",
    "ClientError",
    "CompiledPolicy",
    "Condition",
    "Cone",
    "ConeKernel",
    "ConeTree",
    "ContradictionError",
    "CostWarning",
    "Decision",
    "Decisions",
    "Difference",
    "Edge",
    "Elimination",
    "Environment",
    "Evaluation",
    "Experiment",
    "Explanation",
    "Exponent",
    "FourierSampling",
    "Front",
    "Interval",
    "KernelExplanation",
    "Learner",
    "LinearParetoUCB",
    "Log",
    "Metric",
    "NeighbourParetoUCB",
    "Numeric",
    "Oracle",
    "Outlook",
    "Overlap",
    "ParetoUCB1",
    "ParetoZooming",
    "Policy",
    "PolicyFileError",
    "PowerLaw",
    "Question",
    "RandomArm",
    "Receipt",
    "Replay",
    "Rho",
    "RhoCurve",
    "RowExplanation",
    "Run",
    "SampleSize",
    "ScalarisedUCB",
    "Segment",
    "Segments",
    "SelfTuning",
    "ShiftAlarm",
    "ShiftMonitor",
    "ShiftSnapshot",
    "Study",
    "Truth",
    "Units",
    "World",
    "__version__",
    "additive_gap",
    "check_environment",
    "check_policy",
    "default_policy",
    "deploy",
    "dominance_distance",
    "environments",
    "evaluate",
    "gap",
    "hausdorff",
    "learn_shards",
    "load_policy",
    "load_study",
    "log_hausdorff",
    "margin",
    "margin_from_log",
    "pareto_mask",
    "replay",
    "rho",
    "rho_curve",
    "rho_tree",
    "run_study",
    "shortfall",
    "simulate",
    "simulate_many",
    "smoothness",
    "smoothness_from_log",
]
