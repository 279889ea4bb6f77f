"""The configuration file: the shape of ``KubeSchedulerConfiguration``.

The same file configures ``gangsched run``, ``simulate``, ``compare`` and ``make_scheduler``; a
simulation does not use what is said there about an API server.

::

    apiVersion: kubescheduler.config.k8s.io/v1
    kind: KubeSchedulerConfiguration
    leaderElection: {leaderElect: true, resourceNamespace: kube-system, resourceName: gangsched}
    clientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf}
    profiles:
    - schedulerName: gangsched
      pluginConfig:
      - name: Coscheduling
        args: {whenBindFails: release_group, placement: auto}

Rules:
  R1  a field that is not known is an error, and so is one of kube-scheduler's that has no meaning
      here: nothing is ignored. The error names the field by its path, and the value;
  R2  every field has a default, so an empty mapping is a valid configuration. The command refuses
      an empty file: it is rather a mistake than a wish for the defaults;
  R3  an error shows a value as the file has it: ``10s``, and not the number that was read from it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar, cast, final

from attrs import field, frozen

from gangsched.errors import InvalidValueError
from gangsched.options.levels import NO_LEVELS, Levels, as_levels
from gangsched.options.quota import Quota, ReclaimFrom, as_quotas
from gangsched.resources import Resources
from gangsched.values.hints import hint
from gangsched.values.seconds import format_duration

__all__ = [
    "PEERS_WITH_LEVELS",
    "PEERS_WITH_QUOTAS",
    "ClientConnection",
    "LeaderElection",
    "ProfileSettings",
    "Settings",
    "read_ignored",
    "read_settings",
]

T = TypeVar("T")

_API: Final = "kubescheduler.config.k8s.io/v1"
_KIND: Final = "KubeSchedulerConfiguration"
_DURATION: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_TRANSPORTS: Final = ("auto", "aiohttp", "httptools")
_CONSTRAINT: Final = re.compile(
    r"spec(?:\.[A-Za-z][A-Za-z0-9]*)+|(?:metadata\.annotations\.)?[a-z0-9][-a-z0-9.]*/[-A-Za-z0-9_.]+"
)
_UNKNOWN: Final = "unknown:"
"""Begins the path of a constraint that no version knows for which this library was made."""
PEERS_WITH_LEVELS: Final = ("kueue", "kai", "volcano", "koordinator")
"""The projects whose objects may state the levels."""
PEERS_WITH_QUOTAS: Final = ("kueue", "kai", "volcano", "yunikorn", "koordinator")
"""The projects whose objects may state the quotas."""
_POINTS: Final = ("multiPoint", "filter", "score")
_QUOTA: Final = (
    *("name", "namespaces", "hard", "parent", "nominal", "borrow", "lend", "weight"),
    "reclaimFrom",
)
_RECLAIM: Final = tuple(each.value for each in ReclaimFrom)


@final
@frozen(kw_only=True)
class LeaderElection:
    """Which Lease the replicas elect a leader by.

    Attributes:
        leader_elect: Whether there is an election; False if there is only one replica.
        lease_duration: Seconds without a renewal after which another replica takes over.
        renew_deadline: Seconds for which the leader tries to renew; less than *lease_duration*.
        retry_period: Seconds between two tries; less than *renew_deadline*.
        resource_name: The name of the Lease.
        resource_namespace: The namespace of the Lease.
    """

    leader_elect: bool = True
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    resource_name: str = "gangsched"
    resource_namespace: str = "kube-system"

    def __attrs_post_init__(self) -> None:
        if not 0 < self.retry_period < self.renew_deadline:
            expected = f"less than renewDeadline, which is {format_duration(self.renew_deadline)} s"
            raise InvalidValueError("leaderElection.retryPeriod", self.retry_period, expected)
        if not self.renew_deadline < self.lease_duration:
            expected = f"less than leaseDuration, which is {format_duration(self.lease_duration)} s"
            raise InvalidValueError("leaderElection.renewDeadline", self.renew_deadline, expected)


@final
@frozen(kw_only=True)
class ClientConnection:
    """How the API server is reached.

    Attributes:
        kubeconfig: The kubeconfig file; None for the ServiceAccount of the pod, then
            ``$KUBECONFIG``, then the default file.
        bind_connections: How many binds are under way at most.
        event_connections: How many events are posted at once at most.
        transport: ``aiohttp``, ``httptools``, or ``auto`` for the faster one that is installed.
    """

    kubeconfig: str | None = None
    bind_connections: int = 32
    event_connections: int = 4
    transport: str = "auto"


@final
@frozen(kw_only=True)
class ProfileSettings:
    """The profile: which pods are placed, and by which plugins.

    Attributes:
        scheduler_names: The values of ``spec.schedulerName`` that are ours.
        disabled: The names of default plugins that do not run.
        enabled: The names of the plugins that are enabled, each once, in the order of the file.
        weights: By the name of a score plugin, its weight.
        args: By the name of a plugin, its arguments.
        enabled_at: By the name of a plugin that is enabled, the path of its first mention.
        disabled_at: By the name of a plugin that is disabled, the path of its first mention.
        weights_at: By the name of a plugin with a weight, the path of the weight.
    """

    scheduler_names: tuple[str, ...] = ("gangsched",)
    disabled: frozenset[str] = frozenset()
    enabled: tuple[str, ...] = ()
    weights: Mapping[str, int] = field(factory=dict[str, int])
    args: Mapping[str, Mapping[str, Any]] = field(factory=dict[str, Mapping[str, Any]])
    # where a name was read decides nothing, so equal profiles may differ in it
    enabled_at: Mapping[str, str] = field(factory=dict[str, str], eq=False, repr=False)
    disabled_at: Mapping[str, str] = field(factory=dict[str, str], eq=False, repr=False)
    weights_at: Mapping[str, str] = field(factory=dict[str, str], eq=False, repr=False)


@final
@frozen(kw_only=True)
class Settings:
    """All settings of a scheduler on a cluster.

    Attributes:
        leader_election: The election among replicas.
        client: How the API server is reached.
        profile: What is scheduled, and how.
        initial_backoff: Seconds before the second attempt of a pod or gang.
        maximum_backoff: The longest such pause in seconds.
        drain: Seconds for which binds under way are waited for at the end.
        respect_budgets: Whether PodDisruptionBudgets may delay the eviction of the rest of a gang
            that failed to start.
        partial_bound: Seconds for which a gang may be partly on nodes before it is evicted.
        write_group_status: Whether phase and counts of PodGroups of ``scheduling.x-k8s.io`` and
            ``scheduling.sigs.k8s.io`` are written; False if another controller writes them.
        demand_interval: Seconds between two measurements of the pending demand; 0 for none.
        quotas: How much pods may request in total; queues make up trees.
        quotas_from: The project whose objects state the quotas instead; empty for none.
        history: The half-life in seconds of the usage that counts for the shares of queues; None if
            only present usage counts.
        levels: Which node labels nest, the coarsest level first.
        levels_from: The project whose objects state the levels instead; empty for none.
        ignored: Constraints that are not modelled and are ignored, as paths without indices. A pod
            with another such constraint is held.
        ignored_unknown: Those of *ignored* that need not be known, because a later version of
            Kubernetes or of a dialect may have them.
    """

    leader_election: LeaderElection = field(factory=LeaderElection)
    client: ClientConnection = field(factory=ClientConnection)
    profile: ProfileSettings = field(factory=ProfileSettings)
    initial_backoff: float = 1.0
    maximum_backoff: float = 10.0
    drain: float = 20.0
    respect_budgets: bool = False
    partial_bound: float = 10.0
    write_group_status: bool = True
    demand_interval: float = 30.0
    quotas: tuple[Quota, ...] = ()
    quotas_from: str = ""
    history: float | None = None
    levels: Levels = NO_LEVELS
    levels_from: str = ""
    ignored: tuple[str, ...] = ()
    ignored_unknown: frozenset[str] = frozenset()


def read_settings(document: object) -> Settings:
    """Return the settings in a configuration file, as it was read from YAML.

    Args:
        document: A mapping; None for an empty file.

    Raises:
        InvalidValueError: A field is unknown or malformed; the error has its path and its value.
    """
    root = _Mapping("", {} if document is None else document)
    root.choice("kind", (_KIND,), _KIND)  # first: a document of another kind has another version
    root.choice("apiVersion", (_API,), _API)
    ignored = _ignored(root)
    levels, levels_from = root.levels("levels")
    quotas_from = root.source("quotas", PEERS_WITH_QUOTAS)
    settings = Settings(
        leader_election=_leader_election(root.mapping("leaderElection")),
        client=_client(root.mapping("clientConnection")),
        profile=_profile(root.each("profiles")),
        initial_backoff=root.seconds("podInitialBackoffSeconds", 1.0),
        maximum_backoff=root.seconds("podMaxBackoffSeconds", 10.0),
        drain=root.seconds("drainSeconds", 20.0, least=0.0),
        partial_bound=root.seconds("partialGangSeconds", 10.0),
        respect_budgets=root.flag("respectDisruptionBudgets", False),
        write_group_status=root.flag("writePodGroupStatus", True),
        demand_interval=root.seconds("demandSeconds", 30.0, least=0.0),
        quotas=() if quotas_from else _quotas(root.each("quotas")),
        quotas_from=quotas_from,
        history=root.seconds("history", 0.0) or None,  # 0 is refused, so it stands for none
        levels=levels,
        levels_from=levels_from,
        ignored=tuple(ignored),
        ignored_unknown=frozenset(path for path, is_unknown in ignored.items() if is_unknown),
    )
    root.close()
    if settings.maximum_backoff < settings.initial_backoff:
        least = format_duration(settings.initial_backoff)
        expected = f"at least podInitialBackoffSeconds, which is {least}"
        raise root.as_given("podMaxBackoffSeconds", 10.0, expected)
    return settings


def read_ignored(name: str, text: str) -> tuple[str, bool]:
    """Return the path of a constraint, and whether it need not be known.

    Args:
        name: How the text is given, for the error.
        text: The path, after ``unknown:`` if it need not be known.

    Raises:
        InvalidValueError: It is no such path.
    """
    path = text.removeprefix(_UNKNOWN)
    if not _CONSTRAINT.fullmatch(path):
        expected = (
            "a path without indices, such as spec.resourceClaims, or the key of an annotation"
        )
        raise InvalidValueError(name, text, expected)
    return path, path != text


def _ignored(root: _Mapping) -> dict[str, bool]:
    name = "ignoredConstraints"
    texts = enumerate(root.texts(name, optional=True))
    return dict(read_ignored(f"{root.path(name)}[{place}]", text) for place, text in texts)


def _quotas(given: list[_Mapping]) -> tuple[Quota, ...]:
    found: list[Quota] = []
    for each in given:
        each.only(*_QUOTA)
        found.append(_quota(each.name("name", ""), each))
        each.close()
    return as_quotas(found)


def _quota(name: str, each: _Mapping) -> Quota:
    namespaces = each.texts("namespaces", optional=True)
    hard = each.amounts("hard")
    parent = each.name("parent", "") if each.has("parent") else None
    nominal = each.amounts("nominal")
    borrow, lend = each.amounts("borrow"), each.amounts("lend")
    weight = each.number("weight", 1.0)
    reclaim_from = ReclaimFrom(each.choice("reclaimFrom", _RECLAIM, ReclaimFrom.ANY.value))
    try:
        return Quota(
            name=name,
            namespaces=namespaces,
            hard=hard or {},
            parent=parent,
            nominal=nominal,
            borrow=borrow or {},
            lend=lend or {},
            weight=weight,
            reclaim_from=reclaim_from,
        )
    except InvalidValueError as error:
        if error.field != "hard":
            raise InvalidValueError(each.path(error.field), error.value, error.expected) from error
        expected = (
            "at least one resource with its largest amount, such as {cpu: 64}, as it has"
            " namespaces without nominal, parent or weight"
        )
        raise InvalidValueError(each.path("hard"), hard or None, expected) from error


def _leader_election(given: _Mapping) -> LeaderElection:
    given.choice("resourceLock", ("leases",), "leases")
    try:
        found = LeaderElection(
            leader_elect=given.flag("leaderElect", True),
            lease_duration=given.seconds("leaseDuration", 15.0),
            renew_deadline=given.seconds("renewDeadline", 10.0),
            retry_period=given.seconds("retryPeriod", 2.0),
            resource_name=given.name("resourceName", "gangsched"),
            resource_namespace=given.name("resourceNamespace", "kube-system"),
        )
    except InvalidValueError as error:
        defaults = {"renewDeadline": 10.0, "retryPeriod": 2.0}
        name = error.field.rpartition(".")[2]
        if name not in defaults:
            raise
        raise given.as_given(name, defaults[name], error.expected) from error
    given.close()
    return found


def _client(given: _Mapping) -> ClientConnection:
    found = ClientConnection(
        kubeconfig=given.text("kubeconfig", "") or None,
        bind_connections=given.whole("bindConnections", 32),
        event_connections=given.whole("eventConnections", 4),
        transport=given.choice("transport", _TRANSPORTS, "auto"),
    )
    given.close()
    return found


def _profile(given: list[_Mapping]) -> ProfileSettings:
    if not given:
        return ProfileSettings()
    if len(given) > 1:
        expected = (
            "one profile: two profiles would not see what the other has assumed. For a second"
            " profile, run a second process with a file, a schedulerName and a Lease of its own"
        )
        raise InvalidValueError("profiles", f"{len(given)} profiles", expected)
    (profile,) = given
    name = profile.name("schedulerName", "gangsched")
    disabled: dict[str, str] = {}
    enabled: dict[str, str] = {}
    weights: dict[str, int] = {}
    weights_at: dict[str, str] = {}
    plugins = profile.mapping("plugins")
    for point in _POINTS:
        at = plugins.mapping(point)
        for plugin, each in _plugins(at, "disabled"):
            disabled.setdefault(plugin, each.path("name"))
        for plugin, each in _plugins(at, "enabled"):
            enabled.setdefault(plugin, each.path("name"))
            weight = each.whole("weight", 0, least=0)
            each.close()
            if weight:
                weights[plugin], weights_at[plugin] = weight, each.path("weight")
        at.close()
    plugins.close()
    args: dict[str, Mapping[str, Any]] = {}
    for each in profile.each("pluginConfig"):
        each.only("name", "args")
        plugin = each.text("name", "")
        if not plugin or plugin in args:
            expected = "the name of a plugin" if not plugin else "named once"
            raise InvalidValueError(each.path("name"), plugin, expected)
        args[plugin] = each.mapping("args").rest()
        each.close()
    profile.close()
    return ProfileSettings(
        scheduler_names=(name,),
        disabled=frozenset(disabled),
        enabled=tuple(enabled),
        weights=weights,
        args=args,
        enabled_at=enabled,
        disabled_at=disabled,
        weights_at=weights_at,
    )


def _plugins(at: _Mapping, verb: str) -> list[tuple[str, _Mapping]]:
    """Return the plugins that a point enables or disables, each with its entry."""
    found: dict[str, _Mapping] = {}
    for each in at.each(verb):
        each.only("name", *(("weight",) if verb == "enabled" else ()))
        name = each.text("name", "")
        if not name:
            raise InvalidValueError(each.path("name"), name, "the name of a plugin")
        if name in found:
            raise InvalidValueError(each.path("name"), name, "a plugin that no other entry names")
        found[name] = each
    return list(found.items())


@final
class _Mapping:
    """A mapping of the file, of which each field is read once."""

    def __init__(self, at: str, given: object) -> None:
        if not isinstance(given, Mapping):
            raise InvalidValueError(at or "configuration", given, "a mapping")
        self._at = at
        self._given = dict(cast("Mapping[object, object]", given))
        self._all = dict(self._given)
        self._known: set[str] = set()

    def path(self, name: object) -> str:
        return f"{self._at}.{name}" if self._at else str(name)

    def as_given(self, name: str, default: float, expected: str) -> InvalidValueError:
        """Return the error of a duration, with the value that the file has or the default."""
        value = self._all.get(name)
        if value is None:
            expected += f"; it is not given, and its default is {format_duration(default)}"
        return InvalidValueError(self.path(name), value, expected)

    def mapping(self, name: str) -> _Mapping:
        given = self._take(name)
        return _Mapping(self.path(name), {} if given is None else given)

    def each(self, name: str) -> list[_Mapping]:
        given = self._take(name)
        if given is None:
            return []
        if not isinstance(given, list):
            raise InvalidValueError(self.path(name), given, "a list")
        items = cast("list[object]", given)
        return [_Mapping(f"{self.path(name)}[{n}]", each) for n, each in enumerate(items)]

    def texts(self, name: str, *, optional: bool = False) -> list[str]:
        given = self._take(name)
        value: object = given
        if optional and (given is None or given == []):
            return []
        items = cast("list[object]", given) if isinstance(given, list) else []
        if not items:
            expected = "a list of at least one non-empty string"
            raise InvalidValueError(self.path(name), value, expected)
        for place, item in enumerate(items):
            if not isinstance(item, str) or not item:
                raise InvalidValueError(f"{self.path(name)}[{place}]", item, "a non-empty string")
        return cast("list[str]", items)

    def levels(self, name: str) -> tuple[Levels, str]:
        """Return levels, and the project whose objects state them: empty if the file does."""
        peer = self.source(name, PEERS_WITH_LEVELS)
        if peer:
            return NO_LEVELS, peer
        given = self._take(name)
        try:
            return as_levels(() if given is None else cast("list[str]", given)), ""
        except InvalidValueError as error:
            raise InvalidValueError(self.path(name), given, error.expected) from error

    def source(self, name: str, peers: tuple[str, ...]) -> str:
        """Return the project that ``{from: project}`` names; empty if the field is none such."""
        if not isinstance(self._given.get(name), Mapping):
            return ""
        given = self.mapping(name)
        given.only("from")
        peer = given.choice("from", peers, "")
        if not peer:
            raise InvalidValueError(given.path("from"), None, " or ".join(peers))
        return peer

    def has(self, name: str) -> bool:
        """Return whether a field has a value; it is read later."""
        return self._given.get(name) is not None

    def amounts(self, name: str) -> dict[str, Any] | None:
        """Return a mapping from resources to amounts; None if it is absent."""
        if not self.has(name):
            self._take(name)
            return None
        given = self.mapping(name)
        amounts = given.rest()
        for resource, amount in amounts.items():
            try:
                found = Resources({resource: amount})
            except InvalidValueError as error:
                raise InvalidValueError(given.path(resource), amount, error.expected) from error
            if found.get(resource, 0) < 0:
                raise InvalidValueError(given.path(resource), amount, "an amount >= 0")
        return amounts

    def text(self, name: str, default: str) -> str:
        return self._read(name, default, lambda v: isinstance(v, str), "a string")

    def name(self, name: str, default: str) -> str:
        text = self.text(name, default)
        if not _NAME.fullmatch(text):
            raise InvalidValueError(self.path(name), text, "a name of lower-case letters")
        return text

    def choice(self, name: str, choices: Iterable[str], default: str) -> str:
        allowed = tuple(choices)
        return self._read(name, default, lambda v: v in allowed, " or ".join(allowed))

    def flag(self, name: str, default: bool) -> bool:
        return self._read(name, default, lambda v: type(v) is bool, "true or false")

    def whole(self, name: str, default: int, *, least: int = 1) -> int:
        def is_whole(value: object) -> bool:
            return type(value) is int and value >= least

        return self._read(name, default, is_whole, f"a whole number >= {least}")

    def number(self, name: str, default: float) -> float:
        def is_number(value: object) -> bool:
            return type(value) in (int, float) and 0 <= cast("float", value) < math.inf

        return float(self._read(name, default, is_number, "a finite number >= 0"))

    def seconds(self, name: str, default: float, *, least: float = 0.001) -> float:
        expected = f"a number of seconds >= {format_duration(least)}, or a duration such as 1m30s"
        given = self._take(name)
        if given is None:
            return default
        found: float | None = None
        if type(given) in (int, float):
            found = float(cast("float", given))
        elif isinstance(given, str) and given and (match := _DURATION.fullmatch(given)):
            h, m, s, ms = (float(part or 0) for part in match.groups())
            found = 3600 * h + 60 * m + s + ms / 1000
        if found is None or not least <= found <= 1e9:
            raise InvalidValueError(self.path(name), given, expected)
        return found

    def rest(self) -> dict[str, Any]:
        rest, self._given = self._given, {}
        return {str(name): value for name, value in rest.items()}

    def only(self, *names: str) -> None:
        """Refuse other fields, before the absence of one of these is an error."""
        self._known.update(names)
        for name, value in self._given.items():
            if name not in self._known:
                expected = f"absent, because no setting has this name here{hint(name, self._known)}"
                raise InvalidValueError(self.path(name), value, expected)

    def close(self) -> None:
        """Refuse the fields that were not read."""
        self.only()

    def _take(self, name: str) -> object:
        self._known.add(name)
        return self._given.pop(name, None)

    def _read(self, name: str, default: T, allowed: Callable[[object], bool], expected: str) -> T:
        given = self._take(name)
        if given is None:
            return default
        if not allowed(given):
            raise InvalidValueError(self.path(name), given, expected)
        return cast("T", given)
