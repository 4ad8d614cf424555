//! Chooses the SIMD instructions of a run: the best that the CPU has, or those that a test names.

/// A set of instructions. All give the same result. Others get those beyond the portable ones from
/// [`Simd::choose`] alone, which asks the CPU: code is compiled for them.
///
/// ```compile_fail
/// rowfall_decode::simd::Simd::Avx512; // nobody has asked the CPU
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Simd {
    /// Portable code; SSE2 on x86-64 and NEON on aarch64, which every such CPU has.
    Scalar,
    /// AVX2 with PCLMULQDQ, BMI1, BMI2, LZCNT and POPCNT.
    #[cfg(target_arch = "x86_64")]
    #[non_exhaustive]
    Avx2,
    /// AVX-512 BW and VBMI2, with all of the above.
    #[cfg(target_arch = "x86_64")]
    #[non_exhaustive]
    Avx512,
}

impl Simd {
    /// The named set, `auto` for the best that this CPU has; None where the CPU lacks it.
    pub fn choose(name: &str) -> Option<Simd> {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            let bits = has!("bmi1") && has!("bmi2") && has!("lzcnt") && has!("popcnt");
            let avx2 = bits && has!("avx2") && has!("pclmulqdq");
            let wide = avx2 && has!("avx512bw") && has!("avx512vbmi2");
            match name {
                "auto" | "avx512" if wide => return Some(Simd::Avx512),
                "auto" | "avx2" if avx2 => return Some(Simd::Avx2),
                _ => {}
            }
        }
        matches!(name, "auto" | "scalar").then_some(Simd::Scalar)
    }
}
