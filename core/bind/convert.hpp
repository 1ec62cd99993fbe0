// Value-preserving conversion between number types: what does not fit is refused, never wrapped or cut off.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace relive {

enum class Type { kBool, kInt8, kInt16, kInt32, kInt64, kUint8, kUint16, kUint32, kUint64, kFloat32, kFloat64, kOther };

template <class To, class From>
bool fits(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value == From(0) || value == From(1);
  } else if constexpr (std::is_same_v<From, bool> || std::is_same_v<From, To>) {
    return true;
  } else if constexpr (std::is_floating_point_v<To> && std::is_floating_point_v<From>) {
    // Rounding to fewer digits is what a float32 field asks for; turning a finite number into infinity is not.
    return !(std::isfinite(value) && !std::isfinite(static_cast<To>(value)));
  } else if constexpr (std::is_floating_point_v<To>) {
    constexpr int digits = std::numeric_limits<To>::digits;
    if constexpr (std::numeric_limits<From>::digits <= digits) {
      return true;
    } else {
      constexpr auto limit = static_cast<From>(From{1} << digits);
      if constexpr (std::is_signed_v<From>)
        return value >= -limit && value <= limit;
      else
        return value <= limit;
    }
  } else {
    if constexpr (std::is_signed_v<From> && !std::is_signed_v<To>) {
      return value >= 0 && static_cast<std::make_unsigned_t<From>>(value) <= std::numeric_limits<To>::max();
    } else if constexpr (!std::is_signed_v<From> && std::is_signed_v<To>) {
      return value <= static_cast<std::make_unsigned_t<To>>(std::numeric_limits<To>::max());
    } else {
      return value >= std::numeric_limits<To>::min() && value <= std::numeric_limits<To>::max();
    }
  }
}

template <class To, class From>
bool convert_values(const void* from, void* to, std::int64_t n) {
  const auto* source = static_cast<const From*>(from);
  auto* target = static_cast<To*>(to);
  if constexpr (std::is_floating_point_v<From> && !std::is_floating_point_v<To>) {
    return false;
  } else {
    bool good = true;
    for (std::int64_t i = 0; i < n; ++i) {
      good = good && fits<To, From>(source[i]);
      target[i] = good ? static_cast<To>(source[i]) : To{};
    }
    return good;
  }
}

template <class To>
bool convert_to(Type type, const void* from, void* to, std::int64_t n) {
  switch (type) {
    case Type::kBool: return convert_values<To, bool>(from, to, n);
    case Type::kInt8: return convert_values<To, std::int8_t>(from, to, n);
    case Type::kInt16: return convert_values<To, std::int16_t>(from, to, n);
    case Type::kInt32: return convert_values<To, std::int32_t>(from, to, n);
    case Type::kInt64: return convert_values<To, std::int64_t>(from, to, n);
    case Type::kUint8: return convert_values<To, std::uint8_t>(from, to, n);
    case Type::kUint16: return convert_values<To, std::uint16_t>(from, to, n);
    case Type::kUint32: return convert_values<To, std::uint32_t>(from, to, n);
    case Type::kUint64: return convert_values<To, std::uint64_t>(from, to, n);
    case Type::kFloat32: return convert_values<To, float>(from, to, n);
    case Type::kFloat64: return convert_values<To, double>(from, to, n);
    case Type::kOther: return false;
  }
  return false;
}

// False if a value does not fit, or floats are offered for whole numbers.
inline bool convert(Type from_type, const void* from, Type to_type, void* to, std::int64_t n) {
  switch (to_type) {
    case Type::kBool: return convert_to<bool>(from_type, from, to, n);
    case Type::kInt8: return convert_to<std::int8_t>(from_type, from, to, n);
    case Type::kInt16: return convert_to<std::int16_t>(from_type, from, to, n);
    case Type::kInt32: return convert_to<std::int32_t>(from_type, from, to, n);
    case Type::kInt64: return convert_to<std::int64_t>(from_type, from, to, n);
    case Type::kUint8: return convert_to<std::uint8_t>(from_type, from, to, n);
    case Type::kUint16: return convert_to<std::uint16_t>(from_type, from, to, n);
    case Type::kUint32: return convert_to<std::uint32_t>(from_type, from, to, n);
    case Type::kUint64: return convert_to<std::uint64_t>(from_type, from, to, n);
    case Type::kFloat32: return convert_to<float>(from_type, from, to, n);
    case Type::kFloat64: return convert_to<double>(from_type, from, to, n);
    case Type::kOther: return false;
  }
  return false;
}

}  // namespace relive
