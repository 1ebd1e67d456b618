#pragma once

#include <nanobind/nanobind.h>

// The parts of the module `hooked._hooked`, in the order in which they are bound: each after what it
// mentions.
namespace hooked::python {

void bind_errors(nanobind::module_& module);
void bind_names(nanobind::module_& module);          ///< axes, sites, names, addresses, selections, `act`
void bind_values(nanobind::module_& module);         ///< caches, hooks, edits
void bind_config(nanobind::module_& module);         ///< configs, processing, loading's options
void bind_text(nanobind::module_& module);           ///< tokenizers and chat
void bind_dictionaries(nanobind::module_& module);   ///< sparse autoencoders, transcoders
void bind_files(nanobind::module_& module);          ///< model folders, the hub cache, files of tensors
void bind_runs(nanobind::module_& module);           ///< what runs take and return
void bind_model(nanobind::module_& module);          ///< HookedTransformer
void bind_weights(nanobind::module_& module);        ///< weights by name, models that are trained
void bind_native_config(nanobind::module_& module);  ///< TransformerLens's form of configs

// Analyses.
void bind_analysis_grids(nanobind::module_& module);        ///< grids and pictures of them
void bind_analysis_places(nanobind::module_& module);       ///< positions, answers, prompt pairs
void bind_analysis_metrics(nanobind::module_& module);      ///< metrics
void bind_analysis_patching(nanobind::module_& module);     ///< sweeps, ablation, paths
void bind_analysis_gradients(nanobind::module_& module);    ///< estimates by gradients, circuits
void bind_analysis_reading(nanobind::module_& module);      ///< lenses, heads, repetition
void bind_analysis_stream(nanobind::module_& module);       ///< what the stream is made of, attribution
void bind_analysis_weights(nanobind::module_& module);      ///< circuits from weights
void bind_analysis_features(nanobind::module_& module);     ///< features of dictionaries
void bind_analysis_graphs(nanobind::module_& module);       ///< attribution graphs of features
void bind_analysis_probes(nanobind::module_& module);       ///< fits, probes and directions
void bind_analysis_interchange(nanobind::module_& module);  ///< interchange interventions

void bind_harvest(nanobind::module_& module);  ///< corpora, harvests, stores of activations
void bind_pages(nanobind::module_& module);    ///< pages and reports

}  // namespace hooked::python
