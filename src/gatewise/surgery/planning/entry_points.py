"""Other ways into a model than its ``forward``, which a plan is not made for."""

from dataclasses import replace

from torch import nn

from gatewise.surgery.planning.plans import PlanData

# Methods with which networks of timm, transformers and torchvision return tensors from inside.
METHODS = (
    "forward_features",
    "forward_head",
    "forward_intermediates",
    "get_intermediate_layers",
    "get_image_features",
    "get_text_features",
    "get_audio_features",
    "extract_features",
)
TABLES = ("feature_info",)  # of the widths of tensors inside


def name_entry_points(plan: PlanData, model: nn.Module) -> PlanData:
    """The plan with a note that names what may return other tensors after it.

    A plan that changes widths, or moves activations into the next layers, changes tensors inside
    the model. Its proof compares what ``forward`` returns.
    """
    if not (plan.edits or plan.layers or plan.replaced):
        return plan
    methods = [name for name in METHODS if callable(getattr(model, name, None))]
    tables = [name for name in TABLES if hasattr(model, name)]
    notes = []
    if methods:
        notes.append(
            "tensors inside the model change, so these may return others than before: "
            + ", ".join(methods)
        )
    if tables:
        notes.append(f"the widths in {', '.join(tables)} are not updated")
    return replace(plan, notes=(*plan.notes, *notes))
