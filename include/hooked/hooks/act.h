#pragma once

#include <cstdint>

#include "hooked/hooks/address.h"
#include "hooked/hooks/site.h"

/// Words for activations: `act::pattern(5)` is one layer's, `act::pattern` alone is every layer's (as a
/// Selection).
namespace hooked::act {

/// A site inside blocks; with a layer it is an address, alone it selects all layers.
struct BlockSite {
  Site site;
  /// `layer` may be negative: -1 is the last one. Sites of cross-attention are those of the decoder.
  Address operator()(std::int32_t layer) const {
    return in(own_stack(row(site)).value_or(Stack::blocks), layer);
  }
  /// The same in one of the two stacks of an encoder-decoder.
  Address encoder(std::int32_t layer) const { return in(Stack::encoder, layer); }
  Address decoder(std::int32_t layer) const { return in(Stack::decoder, layer); }

 private:
  Address in(Stack stack, std::int32_t layer) const {
    return Address(ActivationName{.site = site, .stack = stack, .layer = layer});
  }
};

/// A site that each expert of a mixture has; with layer and expert it is an address, alone it selects all.
struct ExpertSite {
  Site site;
  /// `layer` may be negative: -1 is the last one.
  Address operator()(std::int32_t layer, std::int32_t expert) const {
    return Address(ActivationName{.site = site, .stack = Stack::blocks, .layer = layer, .expert = expert});
  }
};

/// A site outside the blocks, which every model has at most once.
struct ModelSite {
  Site site;
  operator Address() const { return Address(ActivationName{.site = site}); }  // NOLINT: it is one address
};

/// Every point the model has but the wide ones.
struct Defaults {};
inline constexpr Defaults defaults;

/// Every point the model has, the wide ones included.
struct Everything {};
inline constexpr Everything everything;

inline constexpr ModelSite token_embed{Site::token_embed}, position_embed{Site::position_embed},
    token_type_embed{Site::token_type_embed}, full_embed{Site::full_embed};
inline constexpr ModelSite tokens{Site::tokens}, embed_ln_scale{Site::embed_ln_scale},
    embed_ln_normalized{Site::embed_ln_normalized}, embed{Site::embed}, pos_embed{Site::pos_embed},
    encoder_final_ln_scale{Site::encoder_final_ln_scale},
    encoder_final_ln_normalized{Site::encoder_final_ln_normalized}, ln_final_scale{Site::ln_final_scale},
    ln_final_normalized{Site::ln_final_normalized}, decoder_final_ln_scale{Site::decoder_final_ln_scale},
    decoder_final_ln_normalized{Site::decoder_final_ln_normalized},
    mlm_head_ln_scale{Site::mlm_head_ln_scale}, mlm_head_ln_normalized{Site::mlm_head_ln_normalized},
    unembed_in{Site::unembed_in}, unembed_out{Site::unembed_out};

inline constexpr BlockSite resid_pre{Site::resid_pre}, resid_mid{Site::resid_mid},
    resid_post{Site::resid_post}, normalized_resid_post{Site::normalized_resid_post};
inline constexpr BlockSite attn_in{Site::attn_in}, q_input{Site::q_input}, k_input{Site::k_input},
    v_input{Site::v_input}, mlp_in{Site::mlp_in};
inline constexpr BlockSite ln1_scale{Site::ln1_scale}, ln1_normalized{Site::ln1_normalized},
    ln2_scale{Site::ln2_scale}, ln2_normalized{Site::ln2_normalized}, ln1_post_scale{Site::ln1_post_scale},
    ln1_post_normalized{Site::ln1_post_normalized}, ln2_post_scale{Site::ln2_post_scale},
    ln2_post_normalized{Site::ln2_post_normalized};
inline constexpr BlockSite q_latent{Site::q_latent}, q_latent_norm_scale{Site::q_latent_norm_scale},
    q_latent_norm_normalized{Site::q_latent_norm_normalized}, kv_latent{Site::kv_latent},
    kv_latent_norm_scale{Site::kv_latent_norm_scale},
    kv_latent_norm_normalized{Site::kv_latent_norm_normalized}, k_shared{Site::k_shared};
inline constexpr BlockSite q{Site::q}, k{Site::k}, v{Site::v}, q_norm_scale{Site::q_norm_scale},
    q_norm_normalized{Site::q_norm_normalized}, k_norm_scale{Site::k_norm_scale},
    k_norm_normalized{Site::k_norm_normalized}, rot_q{Site::rot_q}, rot_k{Site::rot_k},
    relative_bias{Site::relative_bias}, attn_scores{Site::attn_scores}, pattern{Site::pattern}, z{Site::z},
    result{Site::result}, attn_out{Site::attn_out};
inline constexpr BlockSite cross_attn_in{Site::cross_attn_in}, cross_q{Site::cross_q}, cross_k{Site::cross_k},
    cross_v{Site::cross_v}, cross_attn_scores{Site::cross_attn_scores}, cross_pattern{Site::cross_pattern},
    cross_z{Site::cross_z}, cross_result{Site::cross_result}, cross_attn_out{Site::cross_attn_out},
    resid_mid_cross{Site::resid_mid_cross}, ln3_scale{Site::ln3_scale}, ln3_normalized{Site::ln3_normalized};
inline constexpr BlockSite pre{Site::mlp_pre}, pre_linear{Site::mlp_pre_linear}, mid{Site::mlp_mid},
    mlp_ln_scale{Site::mlp_ln_scale}, mlp_ln_normalized{Site::mlp_ln_normalized}, post{Site::mlp_post},
    mlp_out{Site::mlp_out};
inline constexpr BlockSite expert_weights{Site::expert_weights}, expert_indices{Site::expert_indices},
    shared_pre{Site::shared_pre}, shared_pre_linear{Site::shared_pre_linear}, shared_post{Site::shared_post},
    shared_weight{Site::shared_weight};
inline constexpr ExpertSite expert_gate{Site::expert_gate}, expert_pre{Site::expert_pre},
    expert_post{Site::expert_post};

}  // namespace hooked::act
