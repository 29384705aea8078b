"""The environments of RLVE-Gym as tasks `rlve/NAME`, for `task_modules`: an example of your own source of problems.

    pip install rlve-gym==0.0.1 networkx
    python reasoning_gym_environment.py tasks rlve/Sorting --task-modules examples/contrib/rlve_tasks.py

Difficulty: RLVE measures difficulty in steps from the easiest parameters, without an upper limit, and its controllers
convert steps to parameters. Level L in [0, 1] has `round(TOP * L)` steps; level 0 and no level have the easiest
parameters. Parameters that a user sets (`task_params`) replace parameters of the level.

Rewards: RLVE's rewards are in [-1, 1]. A reward of at least the environment's passing threshold becomes a score of 1, a
negative reward a score of 0. Other rewards are the score, so partial rewards stay partial.

Some environments of RLVE pass a model's text to `sympify` and `eval`, and limit the time with threads. Here only
sandboxed verifier workers score the text, and their deadline ends a verifier that hangs. RLVE imports torch only to
seed it; this module prevents the import.

The module runs in workers only.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import pickle
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType
from typing import Any

from reasoning_env.records import ProblemRequest
from reasoning_env.seeds import follow_seed
from reasoning_env.sources.contract import Generated, Source, SourceTask

PREFIX = "rlve/"
MAX_DRAWS = 300
"""Maximum number of tries to generate a problem with an answer."""
TOP = 8
"""Steps of RLVE's difficulty at level 1. With 0, 4 and 8 steps, 381 of the 400 environments generated each of 12
problems within a second; 9 environments took over 4 seconds for some problems."""
REFERENCE = "reference_answer"
"""The parameter in which an environment keeps its right answer."""
LEFT_OUT = {
    "AddMultiple_Divisible_Counting": "the best split by a count earns 0.81 at level 0; the bound is 0.48",
    "AdditionTable": "the best decision tree earns 0.66 at level 0; the bound is 0.35",
    "AlmostCompleteGraphCycleCounting": "the best split by a count earns 1.00 at level 0; the bound is 0.65",
    "AntiPalindromicSubstringCounting": "the best split by a count earns 0.71 at level 0; the bound is 0.48",
    "BAJBytecomputer": "the best split by a count earns 0.60 at level 0; the bound is 0.35",
    "BannedPointSupersetPathCounting": "the best split by a count earns 0.88 at level 0; the bound is 0.35",
    "BanyanHeart": "the best split by a count earns 0.51 at level 0; the bound is 0.40",
    "BinaryLinearEquation_SolutionCounting": "1 earns 0.44 at level 0; the bound is 0.35",
    "BinaryTreeLeafNumExpectation": "the best split by a count earns 0.66 at level 0; the bound is 0.40",
    "BitAndZero_PathCounting": "2 for every number earns 1.00 at level 0; the bound is 0.35",
    "BitEquationCounting": "the best split by a count earns 0.71 at level 0; the bound is 0.48",
    "BitwiseOperationSequenceCounting": "the best decision tree earns 0.44 at level 0; the bound is 0.35",
    "BoundedAdjacencyDifference_Permutation_Counting": "12 for every number earns 1.00 at level 0; the bound is 0.35",
    "BoundedIntervalIntersection": "the best split by a count earns 0.36 at level 0; the bound is 0.35",
    "BoundedMeanSubarrayCounting": "the best split by a count earns 0.63 at level 0; the bound is 0.35",
    "BoxScheduling": "the best decision tree earns 0.82 at level 0; the bound is 0.35",
    "BucketSorting": "the most frequent number earns 1.00 at level 0; the bound is 0.48",
    "CRT": "the largest number earns 0.83 at level 0; the bound is 0.40",
    "CampfireParty": "the best decision tree earns 1.00 at level 0; the bound is 0.40",
    "Canon": "the best split by a count earns 0.72 at level 0; the bound is 0.48",
    "CantorExpansion": "the best split by a count earns 0.49 at level 0; the bound is 0.35",
    "CardColoringCounting": "the best split by a count earns 0.80 at level 0; the bound is 0.40",
    "CatalanNumberMod": "the best split by a count earns 1.00 at level 0; the bound is 0.65",
    "Circuit": "1 for every number earns 0.80 at level 0; the bound is 0.48",
    "ClearSymmetry": "the best split by a count earns 0.72 at level 0; the bound is 0.48",
    "Clique_IndependentSet_Partitioning_Counting": "the first number earns 1.00 at level 0; the bound is 0.35",
    "CombinationOddSubsequenceCounting": "the best split by a count earns 0.68 at level 0; the bound is 0.48",
    "CongruentEquation": "the best split by a count earns 0.54 at level 0; the bound is 0.40",
    "ConvexHull": "the best constant answer earns 0.59 at level 1; the bound is 0.35",
    "CowDanceShow": "the best split by a count earns 0.38 at level 0; the bound is 0.35",
    "Cube_FixedLocalMaximumCounting": "the best split by a count earns 0.74 at level 0; the bound is 0.35",
    "CycleCounting": "the best split by a count earns 0.93 at level 0; the bound is 0.48",
    "DecreasingDigitCounting": "the best split by a count earns 0.79 at level 0; the bound is 0.48",
    "DeltaMinPopcount": "the best split by a count earns 0.71 at level 0; the bound is 0.48",
    "DeltaNimGame": "the best split by a count earns 1.00 at level 0; the bound is 0.65",
    "DerangementExtension": "the best split by a count earns 0.39 at level 0; the bound is 0.35",
    "DifferenceConstraintSystem": "0 for every number earns 0.50 at level 0; the bound is 0.35",
    "DiscreteLogarithm": "the best split by a count earns 0.64 at level 0; the bound is 0.35",
    "DistinctEdgeColoredCompleteGraphCounting": "the best split by a count earns 1.00 at level 0; the bound is 0.65",
    "DivisorFlipExpectation": "the best split by a count earns 0.43 at level 0; the bound is 0.35",
    "DoubleCrossCounting": "0 earns 0.85 at level 0; the bound is 0.65",
    "DynDynamite": "the most frequent number earns 0.60 at level 0; the bound is 0.35",
    "EnergyStorageMeter": "the best split by a count earns 0.39 at level 0; the bound is 0.35",
    "EuclidGame": "the best split by a count earns 0.76 at level 0; the bound is 0.65",
    "Expression_AddingParenthese_Counting": "the best split by a count earns 0.69 at level 0; the bound is 0.65",
    "FBI_BinaryTree": "the best split by a count earns 0.62 at level 0; the bound is 0.35",
    "FaceRightWay": "the best split by a count earns 0.62 at level 0; the bound is 0.35",
    "FactorialTrailingZeroCount": "the best split by a count earns 0.36 at level 0; the bound is 0.35",
    "Fibtrain": "the largest number earns 0.54 at level 0; the bound is 0.35",
    "FireworkShow": "the best split by a count earns 0.74 at level 0; the bound is 0.48",
    "FractionalProgramming": "the right answer of another problem earns 0.61 at level 0; the bound is 0.35",
    "FractionalProgramming_BipartiteGraphMatching": "the best constant answer earns 0.36 at level 0; the bound is 0.35",
    "GCDFibonacciProduct": "the best split by a count earns 0.86 at level 0; the bound is 0.48",
    "GcdLcmCounting": "the best split by a count earns 0.92 at level 0; the bound is 0.40",
    "GoldWashing": "the last number earns 1.00 at level 0; the bound is 0.35",
    "GraMinimaGame": "the best split by a count earns 0.49 at level 1; the bound is 0.35",
    "GradeRankingCounting": "the best split by a count earns 0.74 at level 0; the bound is 0.48",
    "GraphContainTreeCounting": "the best split by a count earns 0.51 at level 0; the bound is 0.35",
    "GridLocalMinimumCounting": "the best split by a count earns 0.57 at level 0; the bound is 0.35",
    "HamiltonianPathExistence": "the right answer of another problem earns 0.45 at level 0; the bound is 0.35",
    "ImpParty": "the best constant answer earns 0.57 at level 0; the bound is 0.35",
    "IndividualSumBounded_SequenceCounting": "the best split by a count earns 0.66 at level 0; the bound is 0.35",
    "IntegerFactorizationCounting": "the best split by a count earns 0.60 at level 0; the bound is 0.48",
    "InversionPairK_Counting": "the best split by a count earns 0.78 at level 0; the bound is 0.65",
    "Josephus": "the best split by a count earns 1.00 at level 0; the bound is 0.65",
    "KiddingMe": "the best split by a count earns 0.50 at level 0; the bound is 0.40",
    "KingSorting": "the best constant answer earns 0.39 at level 0; the bound is 0.35",
    "KloBlocks": "2 for every number earns 1.00 at level 0; the bound is 0.35",
    "KthSubsequence": "the best decision tree earns 0.57 at level 0; the bound is 0.35",
    "Kth_BinaryTree": "the best split by a count earns 0.66 at level 0; the bound is 0.48",
    "LAS": "the best decision tree earns 0.56 at level 0; the bound is 0.35",
    "LASLaser": "the first number earns 0.84 at level 0; the bound is 0.65",
    "LDSTwo_Counting": "the best decision tree earns 0.81 at level 0; the bound is 0.35",
    "LIZ_Lollipop": "the best decision tree earns 0.62 at level 0; the bound is 0.35",
    "LandformGenerationCounting": "the best split by a count earns 0.52 at level 0; the bound is 0.35",
    "Longest_MatchingSubsequence": "the last number earns 0.43 at level 0; the bound is 0.35",
    "MaxDifferentGroupPairDivision": "the right answer of another problem earns 0.73 at level 0; the bound is 0.48",
    "MaxMultiplicationFixedSum": "the best decision tree earns 0.54 at level 0; the bound is 0.35",
    "MaxPermutation": "the right answer of another problem earns 0.72 at level 0; the bound is 0.35",
    "MaxRMQExpectation": "the best decision tree earns 0.71 at level 0; the bound is 0.35",
    "MaxTree_KPathCoverage": "the best split by a count earns 0.71 at level 0; the bound is 0.65",
    "MaximumAchromaticNumber": "a problem at level 1 takes more than 20 s to generate",
    "MaximumDivisor": "the best decision tree earns 0.72 at level 0; the bound is 0.48",
    "Maximum_SubsequenceNum": "the best split by a count earns 0.76 at level 0; the bound is 0.65",
    "Maze": "the best constant answer earns 0.46 at level 0; the bound is 0.35",
    "MinCostReducingLNDS": "0 earns 0.43 at level 0; the bound is 0.35",
    "MinCostTreeCoverage": "the most frequent number earns 0.57 at level 0; the bound is 0.35",
    "MinDivisionSumXor": "the first number earns 0.36 at level 0; the bound is 0.35",
    "MinInorderBinaryTree": "the best split by a count earns 0.69 at level 0; the bound is 0.48",
    "MinKDivisorNumber": "the best decision tree earns 0.76 at level 0; the bound is 0.35",
    "MinNonsubstring": "the best split by a count earns 0.54 at level 0; the bound is 0.35",
    "MinSumChebyshevDistance": "12 for every number earns 0.58 at level 1; the bound is 0.35",
    "MinSumDistanceSquare": "0 earns 0.36 at level 1; the bound is 0.35",
    "MinSwapTwoPermutations": "0 earns 0.53 at level 0; the bound is 0.35",
    "MinimalCyclicShift": "the first line after the last colon earns 0.54 at level 0; the bound is 0.35",
    "MinimumFibonacciRepresentation": "the best split by a count earns 0.83 at level 0; the bound is 0.65",
    "MinimumHarmoniousChromaticNumber": "the best constant answer earns 0.57 at level 1; the bound is 0.35",
    "MinimumSpanningTreeCounting": "the best decision tree earns 0.46 at level 0; the bound is 0.35",
    "Minimum_DominatingInterval": "the first number earns 0.43 at level 0; the bound is 0.35",
    "Minimum_DominatingSet_Grid": "a problem at level 1 takes more than 20 s to generate",
    "Minimum_MaxSlicer": "the right answer of another problem earns 0.71 at level 0; the bound is 0.48",
    "MitterTransportation": "the best split by a count earns 0.94 at level 0; the bound is 0.65",
    "MixedGraphEulerianCircuit": "the best decision tree earns 0.69 at level 0; the bound is 0.65",
    "MonochromeBlockCounting": "the best split by a count earns 0.49 at level 0; the bound is 0.35",
    "MostComponentTreeRemovingTwoPaths": "the best split by a count earns 0.71 at level 0; the bound is 0.65",
    "MostNumEdge_NonSelfIsomorphism": "the best split by a count earns 0.40 at level 0; the bound is 0.35",
    "MultiDrink": "the right answer of another problem earns 0.68 at level 0; the bound is 0.35",
    "MultipleFlippingGame": "the best split by a count earns 0.89 at level 0; the bound is 0.65",
    "NANDResultCounting": "the best split by a count earns 0.53 at level 0; the bound is 0.35",
    "NegativeBase": "1 for every number earns 0.58 at level 0; the bound is 0.35",
    "NumberPartitionCounting": "the best split by a count earns 0.62 at level 0; the bound is 0.35",
    "OddVisitation": "the right answer of another problem earns 1.00 at level 0; the bound is 0.65",
    "PCPPermutation": "the best constant answer earns 0.56 at level 0; the bound is 0.35",
    "POLPolarization": "the best split by a count earns 0.66 at level 0; the bound is 0.65",
    "PalindromePartitionCounting": "the best split by a count earns 0.51 at level 0; the bound is 0.35",
    "PalindromicSubstringNumberCounting": "the best split by a count earns 0.89 at level 0; the bound is 0.65",
    "Path_NoGoingBack_Counting": "0 earns 0.39 at level 0; the bound is 0.35",
    "Patrol": "the best split by a count earns 0.78 at level 0; the bound is 0.65",
    "PipelineArrangement": "the best constant answer earns 0.75 at level 0; the bound is 0.35",
    "PolynomialMinimum": "the best split by a count earns 0.41 at level 0; the bound is 0.35",
    "PowerCycle": "the best constant answer earns 0.39 at level 0; the bound is 0.35",
    "PowerShortcut": "the right answer of another problem earns 1.00 at level 0; the bound is 0.35",
    "PrefixProductMODDistinctPermutation": "the best split by a count earns 0.53 at level 0; the bound is 0.40",
    "PrefixSumMODDistinctPermutation": "the best split by a count earns 0.62 at level 0; the bound is 0.48",
    "Prefixuffix": "the best split by a count earns 0.88 at level 0; the bound is 0.65",
    "PreorderTraversal": "the best decision tree earns 0.64 at level 0; the bound is 0.35",
    "PythagoreanGraph_IndependentSetCounting": "the best split by a count earns 0.91 at level 0; the bound is 0.65",
    "QuadMagicItems": "0 for every number earns 0.65 at level 0; the bound is 0.35",
    "RangeFourSequenceConstruction": "the best constant answer earns 1.00 at level 0; the bound is 0.35",
    "RangeShrinkingSequenceCounting": "the best split by a count earns 0.37 at level 0; the bound is 0.35",
    "RootExtraction": "the most frequent number earns 0.60 at level 0; the bound is 0.35",
    "RoyalLockCounting": "the best split by a count earns 1.00 at level 0; the bound is 0.65",
    "SAT": "the best constant answer earns 0.35 at level 1; the bound is 0.35",
    "SCC_Sequence_Counting": "the right answer of another problem earns 1.00 at level 0; the bound is 0.35",
    "SaladBar": "the best split by a count earns 0.47 at level 0; the bound is 0.35",
    "SameAdjacencyCounting": "the best split by a count earns 0.81 at level 0; the bound is 0.65",
    "SegmentMinLengthEqual_Counting": "the best split by a count earns 0.66 at level 0; the bound is 0.40",
    "SegmentTreeSortingCounting": "the best decision tree earns 0.66 at level 0; the bound is 0.48",
    "SelfPowerSequenceMOD": "the best decision tree earns 0.48 at level 0; the bound is 0.35",
    "SetSplitting": "the most frequent number earns 0.77 at level 0; the bound is 0.35",
    "SingingGirlStory": "the best decision tree earns 0.66 at level 0; the bound is 0.35",
    "SingleStackSorting": "the best split by a count earns 0.47 at level 0; the bound is 0.35",
    "SkaRockGarden": "the best split by a count earns 0.51 at level 0; the bound is 0.35",
    "SplittingGame": "the best decision tree earns 0.78 at level 0; the bound is 0.65",
    "SquareUndamagedPointCounting": "the best split by a count earns 0.60 at level 0; the bound is 0.35",
    "StirlingSecond": "the best decision tree earns 0.69 at level 0; the bound is 0.35",
    "StoneGame": "the best split by a count earns 0.73 at level 0; the bound is 0.65",
    "StoneIntervalsGame": "the largest number earns 0.66 at level 0; the bound is 0.35",
    "StringReversalConstruction": "the first number earns 0.70 at level 0; the bound is 0.48",
    "SubarraySumXor": "the best decision tree earns 0.47 at level 0; the bound is 0.35",
    "SubarrayXorSum": "the best decision tree earns 0.61 at level 0; the bound is 0.35",
    "SubsequenceReversalLNDS": "the first number earns 0.74 at level 0; the bound is 0.48",
    "SubsetSum": "the best constant answer earns 0.61 at level 0; the bound is 0.35",
    "SubsetSumSequence": "the most frequent number earns 0.81 at level 0; the bound is 0.48",
    "SumMOD": "the best split by a count earns 0.47 at level 0; the bound is 0.35",
    "SumPseudoEuclidean": "the right answer of another problem earns 1.00 at level 0; the bound is 0.35",
    "TakingPrimeGame": "the best split by a count earns 1.00 at level 0; the bound is 0.65",
    "TaskArrangement": "the best constant answer earns 0.81 at level 0; the bound is 0.35",
    "TetrisAttack": "the best split by a count earns 0.66 at level 0; the bound is 0.40",
    "ThreeStringCommonSubsequenceCounting": "the best split by a count earns 0.64 at level 0; the bound is 0.35",
    "ThreeVertexCycleCounting": "the best split by a count earns 0.39 at level 0; the bound is 0.35",
    "TopologicalSort": "the best decision tree earns 0.51 at level 0; the bound is 0.35",
    "TopologicalSort_MinimalLexicographicalOrder": "the best decision tree earns 0.72 at level 0; the bound is 0.35",
    "TransmissionDelay": "2 for every number earns 1.00 at level 0; the bound is 0.35",
    "TreeCenter": "the best decision tree earns 0.50 at level 0; the bound is 0.40",
    "TreeDynamic_XORZeroPath": "the best split by a count earns 0.59 at level 0; the bound is 0.40",
    "TreeElimination_Expectation": "the best split by a count earns 1.00 at level 0; the bound is 0.65",
    "TreeRandomWalkExpectation": "the right answer of another problem earns 1.00 at level 0; the bound is 0.35",
    "TreeTopologicalSequenceCounting": "the best decision tree earns 0.95 at level 0; the bound is 0.65",
    "Tree_DistanceEqualTriad_Counting": "the best split by a count earns 0.79 at level 0; the bound is 0.65",
    "TriumphalArch": "the best split by a count earns 1.00 at level 0; the bound is 0.65",
    "TwiddlePuzzle": "0 for every number earns 0.39 at level 0; the bound is 0.35",
    "TwoSet_AllCoprime_Counting": "the best decision tree earns 0.39 at level 0; the bound is 0.35",
    "VirusSynthesis": "the best split by a count earns 0.82 at level 0; the bound is 0.65",
    "VisibleLine": "the best split by a count earns 0.45 at level 0; the bound is 0.35",
    "WYC": "the best split by a count earns 0.76 at level 0; the bound is 0.35",
    "WeightedBinaryTree": "the best constant answer earns 0.76 at level 0; the bound is 0.65",
    "WhackAMole": "the most frequent number earns 0.36 at level 0; the bound is 0.35",
}
"""The environments of release 0.0.1 that training leaves out unless they are named, with the reasons.

`audit --task-modules examples/contrib/rlve_tasks.py --tasks "rlve/*" --levels 0,1` scored answers that need no
reasoning, in all 400 environments, on 5 to 160 problems at each level. A row has the answer with the highest mean
score, this score and the audit's limit for it; or it says that generating problems takes long."""


def make_source() -> RlveSource:
    """Return the source of problems; workers call this. Raises ImportError if rlve-gym is not installed."""
    return RlveSource()


class RlveSource(Source):
    """The environments of the installed package."""

    def __init__(self) -> None:
        environments, controllers = _import_gym()
        self._environments = environments
        self._controllers = controllers
        release = f"rlve@{importlib.metadata.version('rlve-gym')}"
        self._tasks = {
            f"{PREFIX}{name}": SourceTask("rlve", release, has_levels=True, left_out=LEFT_OUT.get(name, ""))
            for name in sorted(environments)
        }

    @property
    def tasks(self) -> Mapping[str, SourceTask]:
        return self._tasks

    def generate(self, request: ProblemRequest) -> Generated:
        for number in range(MAX_DRAWS):
            generated = self._make(replace(request, seed=follow_seed(request.seed, number)))
            # The answer rule takes no empty answer, so that nobody could be right.
            if request.exact_seed or generated.answer is None or generated.answer.strip():
                return replace(generated, flawed={"wrong": number} if number else {})
        raise ValueError(f"none of {MAX_DRAWS} problems may be served: their right answers are empty")

    def _make(self, request: ProblemRequest) -> Generated:
        """Make a problem from exactly the request's seed."""
        name = request.task.removeprefix(PREFIX)
        if request.params_are_whole:
            params: Mapping[str, Any] = request.params
            level = request.level
        else:
            steps = round(TOP * (request.level or 0.0))
            params = {**self._parameters(name, steps, request.seed), **request.params}
            level = None if request.level is None else steps / TOP
        environment = self._environments[name]()
        environment.seed = request.seed
        environment.parameter = json.loads(json.dumps(params))
        _seed_generators(request.seed)
        environment._generate()
        question = str(environment._prompt_generate())
        answer = environment.parameter.get(REFERENCE)
        state = environment.parameter, environment.passing_reward_threshold
        return Generated(
            question=question,
            answer=None if answer is None else str(answer),
            metadata_json="{}",
            entry=pickle.dumps((request.seed, *state)),
            seed=request.seed,
            params=params,
            level=level,
        )

    def scorer(
        self, task: str, params: Mapping[str, Any], entry: bytes, level: float | None, *, plainly: bool
    ) -> RlveAnswers:
        pickle.loads(entry)  # here, an unreadable entry is an infrastructure error; later, it would be the answer's
        return RlveAnswers(self._environments[task.removeprefix(PREFIX)], entry)

    def bare_scorer(
        self, task: str, params: Mapping[str, Any], entry: bytes, level: float | None
    ) -> Callable[[str], object]:
        answers = self.scorer(task, params, entry, level, plainly=True)

        def verify(answer: str) -> float:
            reward = answers.reward(answer)
            return answers.as_score(reward) if -1.0 <= reward <= 1.0 else reward

        return verify

    def check(self, task: str, params: Mapping[str, Any], level: float | None) -> str | None:
        known = self._parameters(task.removeprefix(PREFIX), 0, 0)
        unknown = [name for name in params if name not in known]
        if unknown:
            return f"{task}: there is no parameter {unknown[0]!r}; choose from: {', '.join(known) or 'none'}"
        return super().check(task, params, level)

    def describe(self, task: str) -> Mapping[str, Mapping[str, Any]]:
        name = task.removeprefix(PREFIX)
        at_levels = {str(level): self._parameters(name, round(TOP * level), 0) for level in (0.0, 0.5, 1.0)}
        return {
            parameter: {"default": default, "levels": {level: at[parameter] for level, at in at_levels.items()}}
            for parameter, default in at_levels["0.0"].items()
        }

    def _parameters(self, name: str, steps: int, seed: int) -> dict[str, Any]:
        """Return the parameters after a number of steps. If there are several sets, the seed picks one."""
        controller = self._controllers[name]()
        for _ in range(steps):
            controller.update()
        choices = controller.get_parameter_list()
        return dict(json.loads(json.dumps(choices[seed % len(choices)])))


@dataclass(frozen=True)
class RlveAnswers:
    """The scorer of one problem. Each answer gets a fresh environment, since scoring may write into it."""

    environment: Callable[[], Any]
    entry: bytes

    def score(self, answer: str) -> float:
        reward = self.reward(answer)
        if not -1.0 <= reward <= 1.0:
            raise ValueError(f"the verifier returned {reward}")
        return self.as_score(reward)

    def as_score(self, reward: float) -> float:
        """Return the score of a reward in [-1, 1]."""
        _, _, threshold = pickle.loads(self.entry)
        return 1.0 if reward >= threshold - 1e-6 else max(0.0, reward)

    def reward(self, answer: str) -> float:
        """Return RLVE's own reward."""
        environment = self.environment()
        seed, environment.parameter, environment.passing_reward_threshold = pickle.loads(self.entry)
        environment.seed = seed
        # RLVE's own reader of answers looks for the tags, which are gone here.
        environment.processor = partial(_process, environment)
        _seed_generators(seed)
        return float(environment.scorer(answer))


def _process(environment: Any, answer: str) -> Any:
    return environment._process(answer)


def _seed_generators(seed: int) -> None:
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)


def _import_gym() -> tuple[Mapping[str, Callable[[], Any]], Mapping[str, Callable[[], Any]]]:
    """Import RLVE without torch and without its time limits, whose threads a sandboxed verifier may not start."""
    before = sys.modules.get("torch")
    sys.modules["torch"] = ModuleType("torch")
    try:
        base = importlib.import_module("Gym.environment")
    finally:
        if before is None:
            del sys.modules["torch"]
        else:
            sys.modules["torch"] = before
    base.timeout = lambda seconds: lambda function: function  # type: ignore[attr-defined]
    environments = importlib.import_module("Gym.environments").identifier2environment
    controllers = importlib.import_module("Gym.parameter_controllers").identifier2controller
    return environments, controllers
