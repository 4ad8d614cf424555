//! Chooses the SIMD instructions of a run: the best that the CPU has, or those that a test names.

/// A set of instructions. All give the same result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Simd {
    /// Portable code; SSE2 on x86-64, which every such CPU has.
    Scalar,
    /// AVX2 with PCLMULQDQ, BMI1 and POPCNT.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 BW and VBMI2, with all of the above and BMI2.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Simd {
    /// The named set, `auto` for the best that this CPU has; None where the CPU lacks it.
    pub fn choose(name: &str) -> Option<Simd> {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            let avx2 = has!("avx2") && has!("pclmulqdq") && has!("bmi1") && has!("popcnt");
            let wide = avx2 && has!("avx512bw") && has!("avx512vbmi2") && has!("bmi2");
            match name {
                "auto" | "avx512" if wide => return Some(Simd::Avx512),
                "auto" | "avx2" if avx2 => return Some(Simd::Avx2),
                _ => {}
            }
        }
        matches!(name, "auto" | "scalar").then_some(Simd::Scalar)
    }
}
