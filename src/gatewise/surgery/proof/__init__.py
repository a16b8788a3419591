"""Prove a change by running the model before and after, and write receipts."""

from gatewise.surgery.proof.failures import SwapFailed as SwapFailed
from gatewise.surgery.proof.failures import check_difference as check_difference
from gatewise.surgery.proof.module_outputs import watching_calls as watching_calls
from gatewise.surgery.proof.outputs import few as few
from gatewise.surgery.proof.outputs import outputs_after as outputs_after
from gatewise.surgery.proof.outputs import outputs_before as outputs_before
from gatewise.surgery.proof.outputs import outputs_of as outputs_of
from gatewise.surgery.proof.preserved import MOST as MOST
from gatewise.surgery.proof.proving import check_proof as check_proof
from gatewise.surgery.proof.proving import prove as prove
from gatewise.surgery.proof.receipts import Proof as Proof
from gatewise.surgery.proof.receipts import Receipt as Receipt
from gatewise.surgery.proof.receipts import make_receipt as make_receipt
from gatewise.surgery.proof.relative_difference import difference as difference
from gatewise.surgery.proof.running import Arguments as Arguments
from gatewise.surgery.proof.running import ModelCall as ModelCall
from gatewise.surgery.proof.running import run as run
