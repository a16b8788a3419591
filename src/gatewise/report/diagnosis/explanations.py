"""How to read the section of a question, by the name of the question."""

EXPLANATIONS = {
    "gates": (
        "The output of an activation function is a gate times its input. The output of a dead "
        "channel is the same for all inputs and its slope is zero there, so nothing passes, "
        "forward or backward. A channel that is always off never fires but passes something, as "
        "leaky ReLU does below zero. A hard gate that always fires is linear on these inputs. "
        "Two channels are alike if their gates agree on every input and at every place; their "
        "values may differ. A gate that is open half of the time carries one bit."
    ),
    "overlap": (
        "The gates that are open for an input form the sub-network that the input passes "
        "through. If all gates were open equally often and independently, two inputs would "
        "share the square of the average firing rate. Gates that are almost always or almost "
        "never open raise this number. If two inputs of one class share no more than inputs of "
        "different classes, the gates do not separate the classes."
    ),
    "invariance": (
        "A filter fires where its response is among its largest 1 %. The score is how much more "
        "often than by chance it fires again on the flipped, rotated or shifted image, at the "
        "place that the pixel has moved to. A convolution follows shifts by construction; what "
        "is missing comes from borders and strides. (The paper compares the same place in both "
        "images, so that shifts test the pooling: gw.analysis.invariance(..., "
        'location="same").)'
    ),
    "pairing": (
        "The partner of a filter is the filter of the same layer that is most opposite to it. A "
        "correlation of −1 means an exact opposite. Random filters have partners too. The "
        "p-value is the chance that random filters have a mean as low, corrected for the number "
        "of layers. Filters that lie near a few directions are not random either, but they are "
        "as similar as they are opposite. The second p-value flips the sign of every filter at "
        "random and asks how often that gives as strong a result. If both p-values are small, "
        "the layer learned filters with both signs. CReLU stores such a pair as one filter."
    ),
    "orthogonality": (
        "If the filters of a layer are orthogonal, the gate of each filter can be decided "
        "separately. The overlap measures the distance from that: the sum of the squared "
        "cosines of a filter with all others, averaged over the filters. Random filters have an "
        "overlap of about their number divided by their length. The frame bounds are the "
        "smallest and the largest value of |W x|² / |x|²."
    ),
    "prior": (
        "A max-affine layer is a mixture of Gaussians with one component per region. Before it "
        "has seen an input, a unit is in its active region with probability σ(|a|²/2 + b), "
        "where a are its weights and b is its offset. At 1/2 nothing is decided in advance. "
        "Near 0 or 1, the weights and the offset decide more than the input. Normalisation "
        "after the layer is not counted."
    ),
    "reconstruction": (
        "From the features of the first convolution we compute the smallest image with the same "
        "responses. Both signs of a response (CReLU) determine the response. The positive part "
        "(ReLU) determines it only if it was positive, and max pooling keeps only the largest "
        "one. The model's own unit, if it is another, determines a response if no other "
        "response has the same feature."
    ),
    "templates": (
        "Near an input, a ReLU network is linear: f(x) = A x + b. Each row of A is shown as a "
        "picture. Grey is 0, and each picture has its own scale. The outputs shown are those "
        "with the largest average."
    ),
    "kernel": (
        "Gradient descent learns each eigenvector of the tangent kernel at the speed of its "
        "eigenvalue. If one eigenvalue dominates, most differences between inputs are learned "
        "slowly. If the model has several outputs, the kernel is that of one random combination "
        "of them."
    ),
    "flips": (
        "The network gets the same inputs at two checkpoints. A gate that is open at one and "
        "closed at the other has changed. Independent gates that are open equally often would "
        "change as often as the line shows. If gates no longer change, the network continues to "
        "learn like a linear one within its regions."
    ),
    "film": (
        "One window of the plane through three inputs at each checkpoint. It shows how the "
        "linear regions move while the network learns."
    ),
    "complexity": (
        "The complexity says how well the layer, followed by linear weights of length 1, can "
        "fit random labels on these inputs. Larger means that it can fit more noise. The bound "
        "is the complexity of the filters times the square root of their number and 3/√2. The "
        "paper prints it without that last factor; then it does not always hold."
    ),
}
