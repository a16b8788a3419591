declare module "formulas" {
  /** MathML by LaTeX, made when the page is built. */
  const formulas: Record<string, string>;
  export default formulas;
}
