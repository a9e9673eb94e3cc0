"""Work orders go in, chunks come out, and settled answers go back: decides what runs when; never touches torch.

The step is three verbs: `chunk = schedule()`, run it, `settle(chunk, logits, seconds)`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from covey_engine.prefill.api import DONE, Anchor, Answers, Figures, Literal, Partner, Progress, WorkOrder
from covey_engine.prefill.arena import Arena
from covey_engine.prefill.chunk import Chunk
from covey_engine.prefill.orders import Column, Columns, Limits, Resolved, release, resolve
from covey_engine.prefill.packing import Packer
from covey_engine.prefill.readout import MarginReader, answer_tokens
from covey_engine.prefill.tree import Node, Tree, chain


@dataclass(frozen=True)
class Report:
    """What a settled chunk brought one order: answers, its cost and progress so far, and whether that was all."""

    ticket: int
    answers: tuple[Answers, ...]
    figures: Figures
    progress: Progress
    finished: bool

    def named(self, ticket: int) -> Report:
        """The same under another ticket."""
        return replace(self, ticket=ticket)


@dataclass(eq=False)
class _Order:
    ticket: int
    resolved: Resolved
    leaves: list[dict[int, Node]]
    ready: deque[tuple[int, int]]
    certain: set[tuple[int, int]] = field(default_factory=set)
    figures: Figures = Figures()
    to_come: int = 0

    @property
    def open(self) -> bool:
        return any(self.leaves)


@dataclass(eq=False)
class _Query:
    """The orders of one query and the tokens it was served, in units that only compare."""

    orders: list[_Order] = field(default_factory=list)
    served: int = 0


@dataclass(eq=False)
class Request:
    """One prompt of the chunk."""

    order: _Order
    ask: int
    item: int
    leaf: Node
    row: int = -1


class Scheduler:
    """The shared queue of all orders over one arena; not to be called from two threads at once."""

    def __init__(self, limits: Limits, open_column: Callable[[str], Column]) -> None:
        assert limits.arena >= limits.chunk
        self.limits = limits
        self.columns = Columns(open_column)
        self._clear()
        self._orders: dict[int, _Order] = {}
        self._queries: dict[str, _Query] = {}
        self._tickets = 0

    def _clear(self) -> None:
        self.arena = Arena(self.limits.chunk, self.limits.arena - self.limits.chunk)
        self.tree = Tree()
        self._resident: set[Node] = set()
        self._unfinished: Request | None = None
        self._running: list[Request] = []

    # -- orders ------------------------------------------------------------------------------------------------

    def prepare(self, order: WorkOrder) -> Resolved:
        """Check an order and open its columns; may run beside the other methods. Raises EngineError."""
        return resolve(order, self.columns, self.limits)

    def admit(self, resolved: Resolved) -> int:
        """Queue a prepared order; its ticket."""
        self._tickets += 1
        order = _Order(self._tickets, resolved, [{} for _ in resolved.order.asks], deque())
        self._plant(order)
        self._orders[order.ticket] = order
        query = self._queries.get(resolved.order.query)
        if query is None:
            query = _Query(served=min((q.served for q in self._queries.values()), default=0))
            self._queries[resolved.order.query] = query
        query.orders.append(order)
        return order.ticket

    def submit(self, order: WorkOrder) -> int:
        """Prepare and queue an order. Raises EngineError where it can never run."""
        return self.admit(self.prepare(order))

    def cancel(self, ticket: int) -> None:
        """Forget an order; what it alone owned is freed. Unknown tickets are ignored."""
        order = self._orders.get(ticket)
        if order is None:
            return
        if self._unfinished is not None and self._unfinished.order is order:
            self._unfinished = None
        self._running = [request for request in self._running if request.order is not order]
        for ask, leaves in enumerate(order.leaves):
            for item, leaf in leaves.items():
                self._free(self.tree.remove(leaf, (ask, item) not in order.certain))
            leaves.clear()
        self._forget(order)

    def finish_empty(self) -> list[Report]:
        """Reports of the orders without prompts, of which no chunk will ever speak."""
        empty = [order for order in self._orders.values() if not order.open]
        for order in empty:
            self._forget(order)
        return [Report(order.ticket, (), Figures(), Progress(0, 0), True) for order in empty]

    @property
    def running(self) -> tuple[int, ...]:
        """Tickets of the orders that still have prompts to come."""
        return tuple(self._orders)

    @property
    def answer_tokens(self) -> tuple[int, ...]:
        """The tokens whose logits the running orders read."""
        return answer_tokens(
            ask.readout for order in self._orders.values() for ask in order.resolved.order.asks
        )

    def fail_chunk(self) -> list[int]:
        """Drop the orders of the chunk that could not run, and all KV; the dropped tickets."""
        tickets = sorted({request.order.ticket for request in self._running})
        for ticket in tickets:
            self.cancel(ticket)
        self._running = []
        self._unfinished = None
        for node in list(self._resident):
            self._evict(node)
        return tickets

    def _plant(self, order: _Order) -> None:
        work = order.resolved.order
        for item, (anchor, partner) in enumerate(_items(work)):
            for ask in range(len(work.asks)):
                leaf = self.tree.add(list(_path(order.resolved, ask, anchor, partner)), ask > 0)
                order.leaves[ask][item] = leaf
                order.to_come += leaf.end
            order.ready.append((0, item))
            order.certain.add((0, item))

    def _forget(self, order: _Order) -> None:
        del self._orders[order.ticket]
        name = order.resolved.order.query
        self._queries[name].orders.remove(order)
        if not self._queries[name].orders:
            del self._queries[name]
        release(order.resolved, self.columns)

    # -- the three verbs -----------------------------------------------------------------------------------------

    def schedule(self) -> Chunk | None:
        """The next chunk, or None where nothing can run before an answer or an order comes in."""
        assert not self._running, "one chunk at a time"
        packer = Packer(self.limits.chunk)
        chosen: list[Request] = []
        if self._unfinished is not None:
            unfinished, self._unfinished = self._unfinished, None
            if not self._take(packer, unfinished, chosen):
                return self._part(packer, unfinished)
        spent: set[str] = set()
        while len(spent) < len(self._queries):
            name = min((n for n in self._queries if n not in spent), key=lambda n: self._queries[n].served)
            request = self._next(self._queries[name])
            if request is None:
                spent.add(name)
                continue
            if self._take(packer, request, chosen):
                request.order.ready.popleft()
                continue
            if not chosen:
                request.order.ready.popleft()
                return self._part(packer, request)
            spent.add(name)
        self._running = chosen
        return self._pack(packer, chosen) if chosen else None

    def _next(self, query: _Query) -> Request | None:
        for order in query.orders:
            if order.ready:
                ask, item = order.ready[0]
                return Request(order, ask, item, order.leaves[ask][item])
        return None

    def _take(self, packer: Packer, request: Request, chosen: list[Request]) -> bool:
        """Add a request whose missing tokens fit; False where they do not."""
        missing = [
            node for node in chain(request.leaf) if node.done < node.length and node not in packer.fresh
        ]
        replayed = packer.replays(request.leaf, missing)
        tokens = sum(node.length - node.done for node in missing) + replayed
        if packer.tokens + tokens > self.limits.chunk:
            return False
        pairs = 0
        again = int(replayed)
        for node in missing:
            fresh = node.length - node.done
            pairs += fresh * (node.start + node.done) + fresh * (fresh + 1) // 2
            again += fresh if node.computed else 0
            packer.add(node)
        if replayed:
            packer.replay(request.leaf)
            pairs += request.leaf.end
        self._charge(request, tokens, again, pairs)
        request.order.figures = replace(
            request.order.figures,
            prompts=request.order.figures.prompts + 1,
            prompt_tokens=request.order.figures.prompt_tokens + request.leaf.end,
        )
        chosen.append(request)
        return True

    def _charge(self, request: Request, fresh: int, again: int, pairs: int) -> None:
        order = request.order
        order.figures += Figures(fresh_tokens=fresh, recomputed_tokens=again, attention_pairs=pairs)
        self._queries[order.resolved.order.query].served += fresh + 1

    def _part(self, packer: Packer, request: Request) -> Chunk:
        """The first tokens of a path that is longer than a chunk."""
        path = chain(request.leaf)
        self._running = [request]
        self._unfinished = request
        left = self.limits.chunk
        for node in path:
            if node.done == node.length or left == 0:
                continue
            if node.address < 0 and not self._reserve([node], set(path)):
                for other in list(self._resident):
                    self._evict(other)
                self._running, self._unfinished = [], None
                return self._part(Packer(self.limits.chunk), request)
            fresh = min(left, node.length - node.done)
            packer.add(node, fresh)
            left -= fresh
        chunk = packer.chunk([])
        for node, fresh in packer.fresh.items():
            pairs = fresh * (node.start + node.done) + fresh * (fresh + 1) // 2
            self._charge(request, fresh, fresh if node.computed else 0, pairs)
            node.done += fresh
        return chunk

    def _pack(self, packer: Packer, chosen: list[Request]) -> Chunk:
        through: dict[Node, int] = {}
        for request in chosen:
            for node in chain(request.leaf):
                through[node] = through.get(node, 0) + 1
        kept = [n for n in packer.fresh if n.owners > through[n] and n.address < 0 and n.length]
        for node in kept:
            # A range is of use only while those of all its ancestors are there.
            if all(above.address >= 0 or not above.length for above in chain(node)[:-1]):
                self._reserve([node], set(through))
        chunk = packer.chunk(chosen)
        for node in packer.fresh:
            if node.address >= 0:
                node.done = node.length
            node.computed = True
        return chunk

    def settle(self, chunk: Chunk, logits: NDArray[np.float32], seconds: float = 0.0) -> list[Report]:
        """Take the answers of the chunk that ran: what each order hears of it."""
        reader = MarginReader(self.answer_tokens) if self._orders else None
        chosen, self._running = self._running, []
        if self._unfinished is not None:
            chosen = []
        heard: dict[int, dict[int, list[tuple[int, float]]]] = {}
        for request in chosen:
            assert reader is not None
            readout = request.order.resolved.order.asks[request.ask].readout
            margin = float(
                reader.margins(logits[request.row : request.row + 1], [readout], np.zeros(1, np.int64))[0]
            )
            heard.setdefault(request.order.ticket, {}).setdefault(request.ask, []).append(
                (request.item, margin)
            )
            self._move_on(request, margin)
        share = {request.order.ticket for request in chosen} | (
            {self._unfinished.order.ticket} if self._unfinished is not None else set()
        )
        reports = []
        for ticket in sorted(share):
            order = self._orders[ticket]
            order.figures += Figures(device_seconds=seconds / len(share))
            answers = tuple(
                a for ask, rows in sorted(heard.get(ticket, {}).items()) for a in _answers(ask, rows)
            )
            finished = not order.open
            progress = Progress(order.figures.fresh_tokens, 0 if finished else max(0, order.to_come))
            reports.append(Report(ticket, answers, order.figures, progress, finished))
            if finished:
                self._forget(order)
        return reports

    def _move_on(self, request: Request, margin: float) -> None:
        order, item = request.order, request.item
        asks = order.resolved.order.asks
        ask = asks[request.ask]
        following = ask.on_true if margin > ask.readout.zero_point else ask.on_false
        if np.isnan(margin):
            following = DONE
        reachable = _reachable(asks, following)
        for other, leaves in enumerate(order.leaves):
            if item in leaves and other not in reachable:
                leaf = leaves.pop(item)
                order.to_come -= leaf.end
                self._free(self.tree.remove(leaf, other != request.ask))
        order.certain.discard((request.ask, item))
        if following != DONE:
            order.certain.add((following, item))
            self.tree.settle(order.leaves[following][item])
            order.ready.appendleft((following, item))

    # -- memory ----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Assert the law of conservation; for tests, after every step."""
        nodes = sorted(self._resident, key=lambda node: node.address)
        assert all(node.owners > 0 for node in nodes)
        starts = np.array([node.address for node in nodes], np.int64)
        lengths = np.array([node.length for node in nodes], np.int64)
        self.arena.check(starts, lengths, np.array([node.waiting == node.owners for node in nodes], np.bool_))

    def _reserve(self, nodes: list[Node], pinned: set[Node]) -> bool:
        """Give nodes a place in the arena, evicting the cheapest others; False where that does not help."""
        for node in nodes:
            while True:
                place = self.arena.allocate(np.array([node.length], np.int64))
                if place is not None:
                    break
                victims = [n for n in self._resident if n not in pinned and not _held_below(n)]
                if not victims:
                    return False
                self._evict(min(victims, key=lambda n: (n.owners, n.end * n.length)))
            node.address = int(place[0])
            self._resident.add(node)
        return True

    def _evict(self, node: Node) -> None:
        self._free([node])
        node.computed = True

    def _free(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            if node in self._resident:
                self._resident.discard(node)
                self.arena.release(np.array([node.address]), np.array([node.length]))
                node.address, node.done = -1, 0


def _held_below(node: Node) -> bool:
    return any(child.done or child.address >= 0 or _held_below(child) for child in node.children.values())


def _items(work: WorkOrder) -> Iterable[tuple[int, int]]:
    if not work.partners:
        return ((anchor, -1) for anchor in range(work.anchor_count))
    if work.pairs is None:
        return ((a, p) for a in range(work.anchor_count) for p in range(work.partner_count))
    counts = np.diff(work.pairs.offsets)
    anchors = np.repeat(np.arange(work.anchor_count), counts)
    return zip(anchors.tolist(), work.pairs.indices.tolist(), strict=True)


def _path(
    resolved: Resolved, ask: int, anchor: int, partner: int
) -> Iterable[tuple[Hashable, NDArray[np.int32]]]:
    order = resolved.order
    for part in resolved.path(ask):
        match part:
            case Literal(tokens):
                yield tokens, np.array(tokens, np.int32)
            case Anchor(argument):
                slot = int(order.anchors[argument].slots[anchor])
                yield (order.anchors[argument].column, slot), resolved.anchors[argument].tokens(slot)
            case Partner(argument):
                slot = int(order.partners[argument].slots[partner])
                yield (order.partners[argument].column, slot), resolved.partners[argument].tokens(slot)


def _reachable(asks: tuple[object, ...], ask: int) -> set[int]:
    found: set[int] = set()
    todo = [ask]
    while todo:
        at = todo.pop()
        if at != DONE and at not in found:
            found.add(at)
            todo += [asks[at].on_true, asks[at].on_false]  # type: ignore[attr-defined]
    return found


def _answers(ask: int, rows: list[tuple[int, float]]) -> Iterable[Answers]:
    items = np.array([item for item, _ in rows], np.int64)
    margins = np.array([margin for _, margin in rows], np.float32)
    bad = np.isnan(margins)
    if not bad.all():
        yield Answers(ask, items[~bad], margins[~bad])
    if bad.any():
        yield Answers(ask, items[bad], margins[bad], "the model's answer is not a finite number")


def _solid(leaf: Node) -> Node:
    """The last node of the path that has tokens."""
    return next(node for node in reversed(chain(leaf)) if node.length)
