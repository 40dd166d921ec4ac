"""The tree over the log, held against the head, against the nodes kept beside it, and against a head kept elsewhere.

A block's root is computed from its records and compared with the kept node. When they differ, or a record is missing,
the kept node stands in for the block, so that all the other records can still be held against the head: whichever of
the two leads to the head is the one that was not altered.
"""

from __future__ import annotations

from attrs import define, field

from eventjobs.store.codec import unseal
from eventjobs.store.contract import Corrupt, Head
from eventjobs.store.lmdb.snapshot import Snapshot
from eventjobs.store.lmdb.tables import META, TREE, TREE_KEY, decode_progress, node_key
from eventjobs.store.lmdb.tree import TREE_VERSION, covered
from eventjobs.store.merkle import EMPTY_ROOT, HASH_BYTES, NODE_LEVELS, Frontier, complete_root
from eventjobs.tools.verify.report import Check, counted
from eventjobs.tools.verify.walk import BLOCK, Block


@define
class Side:
    """A tree as one witness has it: the records themselves, or the nodes kept beside them. `known` until it is not."""

    blocks: Frontier = field(factory=Frontier)
    known: bool = True

    def add(self, root: bytes | None) -> list[tuple[int, int, bytes]]:
        """The next block's root, None when this witness does not know it; gives the nodes that are to be kept."""
        self.known = self.known and root is not None
        return list(self.blocks.append(root)) if self.known else []

    def peaks(self, tail: list[bytes | None]) -> list[bytes | None] | None:
        """The frontier over all blocks and the leaves that follow them, None for a peak that is not known."""
        if not self.known:
            return None
        return [*self.blocks.peaks, *_tail_peaks(tail)]

    def root(self, tail: list[bytes | None]) -> bytes | None:
        peaks = self.peaks(tail)
        if peaks is None or None in peaks:
            return None
        return Frontier(self.blocks.size * BLOCK + len(tail), peaks).root()


def _tail_peaks(leaves: list[bytes | None]) -> list[bytes | None]:
    """The roots of the complete subtrees that make up fewer than 256 leaves, None where a leaf is missing."""
    peaks, begin = [], 0
    while begin < len(leaves):
        end = begin + (1 << (len(leaves) - begin).bit_length() - 1)
        part = leaves[begin:end]
        peaks.append(None if None in part else complete_root(part))
        begin = end
    return peaks


class TreeWalk:
    """Takes the blocks of the log in order, and tells in the end what the tree over them says."""

    def __init__(self, snapshot: Snapshot, stored: Frontier | None, kept_head: Head | None, check: Check) -> None:
        """`stored` is the frontier of the store's head, None when it cannot be read; `kept_head` was kept elsewhere."""
        self._snapshot, self._stored, self._kept_head, self._check = snapshot, stored, kept_head, check
        self._records, self._nodes = Side(), Side()
        self._tail: list[bytes | None] = []
        self._damaged: list[int] = []
        """Positions of damaged records: of each block the first one, of the last block all."""
        self._next = 1
        self._suspects: dict[int, bool] = {}
        """Blocks whose records do not lead to their node, by the first position: whether one is known to be bad."""
        self._use_nodes = stored is not None and self._has_nodes(stored.size)
        nothing = EMPTY_ROOT if kept_head is not None and kept_head.size == 0 else None
        self._kept_roots: tuple[bytes | None, bytes | None] = nothing, nothing

    def _has_nodes(self, size: int) -> bool:
        """Whether the table of nodes covers the log; one that does not is made anew at the next start."""
        try:
            stored = self._snapshot.stored(META, TREE_KEY)
            progress = None if stored is None else decode_progress(unseal(TREE_KEY, stored, META))
        except Corrupt as error:
            self._check.fault("nodes_damaged", str(error))
            return False
        if progress != (TREE_VERSION, covered(size)):
            self._check.leave("the nodes kept beside the log are out of date; the next start makes them anew")
            return False
        extra = self._snapshot.count(TREE) - sum(size >> level for level in range(NODE_LEVELS, 64, NODE_LEVELS))
        if extra > 0:
            self._check.fault("nodes_extra", f"{counted(extra, 'node')} too many kept beside the log")
        return True

    def _node(self, level: int, index: int) -> bytes | None:
        if not self._use_nodes:
            return None
        key, name = node_key(level, index), f"node {index} of level {level}"
        try:
            stored = self._snapshot.stored(TREE, key)
            node = None if stored is None else unseal(key, stored, TREE)
        except Corrupt as error:
            self._check.fault("node_damaged", f"{name}: {error}")
            return None
        if node is None or len(node) != HASH_BYTES:
            self._check.fault("node_missing", f"{name} is missing, or is no hash")
            return None
        return node

    def add(self, block: Block) -> None:
        """The next block. Only the last one may have fewer than 256 records."""
        if block.first != self._next:
            self._records.known = self._nodes.known = False
        self._next = block.last + 1
        kept = 0 if self._kept_head is None else self._kept_head.size
        among = kept - block.first + 1
        if 0 < among <= len(block.leaves) and among < BLOCK and None not in block.texts[:among]:
            self._look_at_kept(block.leaves[:among])
        if len(block.leaves) < BLOCK:
            self._tail = block.leaves
            self._damaged += [place for place, text in enumerate(block.texts, block.first) if text is None]
            return
        if None in block.texts:
            self._damaged.append(block.first + block.texts.index(None))
        index = (block.first - 1) // BLOCK
        root = None if None in block.leaves else complete_root(block.leaves)
        node = self._node(NODE_LEVELS, index)
        if root is None or (node is not None and node != root):
            self._suspects[block.first] = None in block.texts
        self._records.add(root)
        for level, place, digest in self._nodes.add(root if node is None else node):
            higher = self._node(level + NODE_LEVELS, place)
            if higher not in (None, digest):
                self._wrong_node(level + NODE_LEVELS, place)
        if among == BLOCK:
            self._look_at_kept([])

    def _look_at_kept(self, tail: list[bytes | None]) -> None:
        self._kept_roots = self._records.root(tail), self._nodes.root(tail)

    def finish(self, end: int) -> list[str]:
        """Hold the whole against the store's head; `end` is the last position. Gives what can still be said."""
        if self._stored is None:
            self._check.leave("the store's own head cannot be read")
        elif end != self._stored.size:
            self._check.leave("the log has another size than its head, which therefore stands for other records")
        else:
            return self._hold_against_head(self._stored)
        for first, explained in self._suspects.items():
            if not explained:
                self._altered(first, first + BLOCK - 1)
        return []

    def _hold_against_head(self, head: Frontier) -> list[str]:
        unknown: list[bytes | None] = [None] * len(head.peaks)
        records, nodes = (side.peaks(self._tail) or unknown for side in (self._records, self._nodes))
        begin, proved = 0, 0
        for peak, by_records, by_nodes in zip(head.peaks, records, nodes, strict=True):
            end = begin + (1 << (head.size - begin).bit_length() - 1)
            proved += self._hold_peak(begin, end, peak, by_records, by_nodes)
            begin = end
        if proved == head.size:
            self._check.facts = f"the root over {counted(head.size, 'record')} is the head's"
            return []
        whole = counted(head.size, "record")
        self._check.facts = f"{proved:,} of {whole} are those that the head stands for"
        return [f"{proved:,} of {whole} are, byte for byte, those that the store's head stands for."]

    def _hold_peak(self, begin: int, end: int, peak: bytes, by_records: bytes | None, by_nodes: bytes | None) -> int:
        """Hold the records after `begin` up to `end` against their part of the head; how many of them it proves."""
        suspects = {first: known for first, known in self._suspects.items() if begin < first <= end}
        if by_records == peak:
            for first in suspects:
                self._wrong_node(NODE_LEVELS, (first - 1) // BLOCK)
            return end - begin
        if by_nodes == peak:
            for first, explained in suspects.items():
                if not explained:
                    self._altered(first, first + BLOCK - 1)
            return end - begin - BLOCK * len(suspects)
        explained = any(begin < position <= end for position in self._damaged)
        if explained and (end - begin < BLOCK or not self._use_nodes):
            self._check.leave("what lies beside a damaged record cannot be held against the head")
        elif by_records is not None or by_nodes is not None:
            self._altered(begin + 1, end)
        else:
            self._check.leave(f"positions {begin + 1} to {end} could not be held against the head")
        return 0

    def _wrong_node(self, level: int, place: int) -> None:
        self._check.fault("node_wrong", f"node {place} of level {level} is not the root over what lies below it")

    def _altered(self, first: int, last: int) -> None:
        where = f"position {first} is" if first == last else f"positions {first} to {last} are"
        text = f"{where} not what the tree was made of: altered, with the checksums put right"
        self._check.fault("records_altered", text, first)

    def hold_against_kept(self, head: Head, end: int, check: Check) -> None:
        """Whether the log begins with the one that the kept head stands for."""
        by_records, by_nodes = self._kept_roots
        if head.size > end:
            text = f"the log has {counted(end, 'record')}, but the head that was kept stands for {head.size:,}"
            check.fault("log_cut", f"{text}: its tail was cut off", end + 1)
        elif head.root in (by_records, by_nodes):
            check.facts = f"the log begins with the {counted(head.size, 'record')} of the head that was kept"
        elif by_records is None and by_nodes is None:
            check.leave("records are missing or damaged before its end, so it cannot be told")
        else:
            which = f"the first {counted(head.size, 'record')} are not those of the head that was kept"
            check.fault("log_rewritten", f"{which}: the log was rewritten, or the head is that of another")
