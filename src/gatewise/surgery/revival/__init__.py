"""Give dead units new weights and keep what the network computes."""

from gatewise.surgery.revival.receipts import RevivalReceipt as RevivalReceipt
from gatewise.surgery.revival.receipts import RevivedSite as RevivedSite
from gatewise.surgery.revival.reviving import revive as revive
